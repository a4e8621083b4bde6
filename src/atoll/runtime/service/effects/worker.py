"""Performs what runtime actors ask for outside, after the commit, in its order.

An effect is a record of a depot that the commit appended, so it is there exactly once. A thread per
runtime performs them and keeps how far it is: a numbered object after each batch, made before
the next one. Killed in between, it performs the batch again:

=====  ==================  ====================================================================
kind   happens             because
=====  ==================  ====================================================================
file   exactly once        the object says how long each file was; what is beyond goes first
http   at least once       each request has an ``Idempotency-Key``, the same every time
sql    at least once       likewise: a statement should be one that may run twice, or use a key
=====  ==================  ====================================================================

What an effect gives comes back as an event of its actor, a record of the intake that is stored once
per effect: the first outcome counts, whatever a repetition finds. A request that could not be
made is tried a few times, then its outcome is the error. It is counted, shown and logged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from atoll.errors import AtollError, FencedError, UsageError
from atoll.logs import get_logger
from atoll.outside.asking import Transient
from atoll.runtime.actors.interface import Effect
from atoll.runtime.engine.compile import EFFECTS
from atoll.runtime.limits import check_size
from atoll.runtime.service.beside import Beside
from atoll.runtime.service.effects.outside import Outside
from atoll.runtime.service.effects.performing import perform_http, perform_sql
from atoll.runtime.service.running import RunningRuntime
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError
from atoll.storage.places import Place

_log = get_logger("atoll.runtimes")

_BATCH = 500
_LOOK_SECONDS = 0.5
_PAUSE_SECONDS_MAX = 60.0
_TRIES = 5
_WAIT_SECONDS = 0.2
_CLOSE_SECONDS = 15.0
"""An effect that is on its way may end."""


class Progress(msgspec.Struct):
    """How far the effects of a runtime are.

    Args:
        offset: Of the next one.
        files: By name how long each file is.
        done: How many went well, by kind.
        failed: How many came to an error, by kind.
        error: The last error.
    """

    offset: int = 0
    files: dict[str, int] = {}
    done: dict[str, int] = {}
    failed: dict[str, int] = {}
    error: str | None = None


class EffectWorker(Beside):
    """Performs the effects of one runtime.

    Args:
        running: The runtime.
        outside: What it may reach.
    """

    def __init__(self, running: RunningRuntime, outside: Outside) -> None:
        """Nothing runs; see :meth:`start`."""
        super().__init__(f"atoll-effects-{running.registered.name}", _CLOSE_SECONDS)
        self._running = running
        self._outside = outside
        store = running.app.store
        self._objects = NumberedObjects(store, f"{running.app.name}/effects")
        self._files = _files_folder(store.root, outside.files, running.app.name)
        self._last = self._objects.latest() or 0
        data = self._objects.read(self._last) if self._last else None
        self.progress = Progress() if data is None else msgspec.json.decode(data, type=Progress)
        self._depot = running.app.depot(EFFECTS)
        self._changed = threading.Event()
        self._depot.on_append(self._changed.set)

    def shown(self) -> dict[str, Any]:
        """How far it is."""
        waiting = self._depot.end_offsets()[0] - self.progress.offset
        return {"waiting": waiting, **msgspec.to_builtins(self.progress)}

    def perform(self) -> bool:
        """Perform the next batch; whether there was one."""
        start, end = self.progress.offset, self._depot.end_offsets()[0]
        oldest = self._depot.start_offsets()[0]
        if start < oldest:
            self._keep(self._lost(oldest))
            return True
        if start >= end:
            return False
        rows = self._depot.read(0, start, min(end, start + _BATCH)).to_pylist()
        rows = _of_one_kind(rows)
        end = start + len(rows)
        progress = msgspec.structs.replace(
            self.progress,
            offset=end,
            files=dict(self.progress.files),
            done=dict(self.progress.done),
            failed=dict(self.progress.failed),
        )
        lines: dict[str, list[str]] = {}
        for offset, row in enumerate(rows, start):
            if self._ended.is_set():
                return False
            self._perform(offset, row, progress, lines)
        self._write(lines, progress)
        self._keep(progress)
        return True

    # Inside ---------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()

    def _loop(self) -> None:
        failures = 0
        while not self._ended.is_set():
            self._changed.clear()
            try:
                performed, failures = self.perform(), 0
                if performed:
                    continue
            except (FencedError, ObjectExistsError):
                _log.warning("effects are performed elsewhere", runtime=self._running.app.name)
                return
            except (AtollError, OSError) as error:
                if self._ended.is_set() or self._running.app.fenced is not None:
                    return
                self.progress.error = str(error)[:500]
                _log.error("effects wait", runtime=self._running.app.name, error=str(error))
                self._ended.wait(min(_PAUSE_SECONDS_MAX, _LOOK_SECONDS * 2**failures))
                failures = min(failures + 1, 10)
                continue
            self._changed.wait(_LOOK_SECONDS)

    def _perform(
        self, offset: int, row: dict[str, Any], progress: Progress, lines: dict[str, list[str]]
    ) -> None:
        effect = row["effect"]
        kind, request = effect["kind"], effect["request"]
        if kind == "file":
            self._line(row["actor"], request, progress, lines)
            _count(progress.done, kind)
            return
        actions: dict[str, Callable[[], dict[str, Any]]] = {
            "http": lambda: perform_http(request, row["key"], self._outside),
            "sql": lambda: perform_sql(request, self._outside),
        }
        outcome = self._tried(actions[kind])
        if "error" in outcome:
            _count(progress.failed, kind)
            progress.error = f"{row['actor']}: {outcome['error']}"[:500]
            _log.warning("an effect failed", actor=row["actor"], error=outcome["error"])
        else:
            _count(progress.done, kind)
        actor = self._running.program.actors[row["actor"]]
        made = Effect(kind, request, row["key"])
        try:
            events = actor.kind.answered(actor.declared.params, made, outcome)
            wrong = [problem.what for each in events for problem in check_size(each)]
        except Exception as error:  # noqa: BLE001 - a type's defect, or an answer that means ill
            events, wrong = (), [f"{type(error).__name__}: {error}"]
        if wrong:
            _count(progress.failed, "answer")
            progress.error = f"{row['actor']}: an answer is no event: {wrong[0]}"[:500]
            _log.warning("an answer is no event", actor=row["actor"], error=wrong[0])
            return
        self._running.answered(row["actor"], events, offset, row["copy"])

    def _tried(self, action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """An outcome, after a few tries where it may go well another time."""
        for count in range(_TRIES):
            try:
                return action()
            except Transient as error:
                last = str(error)
                if self._ended.wait(_WAIT_SECONDS * 2**count):
                    raise FencedError("the runtime was closed meanwhile") from error
            except Exception as error:  # noqa: BLE001 - of one effect; the others go on
                return {"error": f"{type(error).__name__}: {error}"[:500]}
        return {"error": f"tried {_TRIES} times: {last}"[:500]}

    def _lost(self, oldest: int) -> Progress:
        """Effects that waited longer than the depot keeps them: told, never passed over."""
        lost = oldest - self.progress.offset
        failed = {**self.progress.failed, "lost": self.progress.failed.get("lost", 0) + lost}
        error = f"{lost} effects waited longer than they are kept"
        _log.error("effects were lost", runtime=self._running.app.name, count=lost)
        return msgspec.structs.replace(self.progress, offset=oldest, failed=failed, error=error)

    def _line(
        self, actor: str, request: dict[str, Any], progress: Progress, lines: dict[str, list[str]]
    ) -> None:
        name = request["file"]
        if name is None:
            _log.info("event", runtime=self._running.app.name, actor=actor, event=request["line"])
            return
        if self._files is None:
            raise UsageError(
                "runtimes of a root in an object store write no files below it",
                hint="name a folder for files: atoll run --outside FILE.json",
                file=name,
            )
        if name not in progress.files:
            path = self._files / name
            kept = request["append"] and path.exists()
            progress.files[name] = path.stat().st_size if kept else 0
        lines.setdefault(name, []).append(request["line"] + "\n")

    def _write(self, lines: dict[str, list[str]], progress: Progress) -> None:
        """Append lines to files that are exactly as long as was kept; what is beyond goes."""
        folder = self._files
        for name, texts in lines.items():
            if folder is None:
                continue  # refused before
            folder.mkdir(parents=True, exist_ok=True)
            data = "".join(texts).encode()
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
            with os.fdopen(os.open(folder / name, flags, 0o644), "wb") as file:
                file.truncate(progress.files[name])
                file.seek(progress.files[name])
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            progress.files[name] += len(data)

    def _keep(self, progress: Progress) -> None:
        self._running.app.epoch.check()
        self._objects.create(self._last + 1, msgspec.json.encode(progress))
        self._last += 1
        self.progress = progress
        self._objects.delete_below(self._last)


def _of_one_kind(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first rows, decoded, as far as all are lines of files, or none is.

    What is done is kept for all of them at once. A file that cannot be written must not let
    requests and statements beside it be made again and again.
    """
    for row in rows:
        row["effect"] = msgspec.json.decode(row["effect"])
    to_file = [row["effect"]["kind"] == "file" for row in rows]
    other = not to_file[0]
    return rows[: to_file.index(other)] if other in to_file else rows


def _count(counts: dict[str, int], kind: str) -> None:
    counts[kind] = counts.get(kind, 0) + 1


def _files_folder(root: Place, given: Path | None, runtime: str) -> Path | None:
    """Where a runtime's files go; None where there is no folder for them."""
    if given is not None:
        return given / runtime
    return root / runtime / "files" if isinstance(root, Path) else None
