"""Steps 5 and 6 beside the topology: what is committed as asked for is computed and offered.

A thread per runtime looks at the calculator's PState after each commit. It keeps nothing that
matters: whoever starts later finds the same question there, until the offer's microbatch has
committed. The calculation itself runs in a thread of its own, which may hang: after a time limit
the next instance is selected, and what the first one finds later is thrown away.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from atoll.cluster.engines import SparkEngine
from atoll.depot.start import after_timestamp
from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.runtime.actors.interface import State
from atoll.runtime.engine.compile import CALCULATOR, EVENTS_LOG, TOPOLOGY
from atoll.runtime.engine.program import ActorProgram
from atoll.runtime.service.beside import Beside
from atoll.runtime.service.running import RunningRuntime, SeenRuntime
from atoll.runtime.snapshots.computing import (
    Log,
    Part,
    PartResult,
    RunParts,
    compute,
    in_this_process,
    part_of,
)
from atoll.runtime.snapshots.counting import STEPS, Calculation, Counted, present, selected
from atoll.runtime.snapshots.step import load

_log = get_logger("atoll.runtimes")

_SECONDS_MAX = 300.0
"""So long a selected instance may compute."""
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 0.2, 30.0
_LOOK_SECONDS = 0.5
_CLOSE_SECONDS = 10.0
"""A calculation that runs longer is thrown away."""

Calculate = Callable[[ActorProgram, Calculation, str], State]
"""The state that a calculation asks for, computed by the selected instance."""


@dataclass
class _Attempt:
    """A calculation on its way, or one that has failed and waits."""

    number: int
    count: int = 0
    by: str = ""
    future: Future[State] | None = None
    begun: float = 0.0
    next: float = 0.0
    error: str | None = None


class SnapshotWorker(Beside):
    """Computes and offers the snapshots of one runtime.

    Args:
        running: The runtime.
        calculate: Computes a state; from the runtime's event log unless given.
        seconds_max: How long one instance may take.
    """

    def __init__(
        self,
        running: RunningRuntime,
        calculate: Calculate | None = None,
        seconds_max: float = _SECONDS_MAX,
    ) -> None:
        """Nothing runs; see :meth:`start`."""
        super().__init__(f"atoll-snapshots-{running.registered.name}", _CLOSE_SECONDS)
        self._running = running
        self._calculate = calculate or partial(calculated, running)
        self._seconds_max = seconds_max
        self._attempts: dict[str, _Attempt] = {}

    def attempts(self) -> dict[str, dict[str, Any]]:
        """By actor the calculation that runs or waits here, its attempts and its failure."""
        return {
            actor: {
                "number": each.number,
                "attempts": each.count,
                "by": each.by,
                "error": each.error,
            }
            for actor, each in list(self._attempts.items())
        }

    def look(self) -> None:
        """Look once: begin what is asked for, offer what is done."""
        now = time.monotonic()
        for name, actor in self._running.program.batch.items():
            state = load(self._running.app.pstate(CALCULATOR).get(name))
            if state.open is None:
                self._attempts.pop(name, None)
                continue
            attempt = self._attempts.get(name)
            if attempt is None or attempt.number != state.open.number:
                attempt = self._attempts[name] = _Attempt(state.open.number)
            if attempt.future is not None and attempt.future.done():
                self._finish(actor, state.open, attempt)
            elif attempt.future is not None and now - attempt.begun > self._seconds_max:
                self._fail(attempt, f"instance {attempt.by} took longer than {self._seconds_max} s")
            if attempt.future is None and now >= attempt.next:
                self._begin(actor, state, attempt)

    # Inside ---------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with contextlib.suppress(AtollError):
            self._running.app.topology(TOPOLOGY).wake()

    def _loop(self) -> None:
        topology = self._running.app.topology(TOPOLOGY)
        while not self._ended.is_set():
            known = topology.published
            try:
                self.look()
            except AtollError as error:
                if self._running.app.fenced is not None:
                    return
                _log.warning("snapshots wait", runtime=self._name, error=str(error))
                self._ended.wait(_LOOK_SECONDS)
            busy = any(each.future is not None for each in self._attempts.values())
            waits = 0.01 if busy else _LOOK_SECONDS
            topology.wait_published(known, self._ended.is_set, waits)

    def _begin(self, actor: ActorProgram, state: Counted, attempt: _Attempt) -> None:
        assert state.open is not None
        attempt.by = selected(present(state), attempt.number, attempt.count)
        attempt.count += 1
        attempt.begun = time.monotonic()
        future: Future[State] = Future()
        attempt.future = future
        self._told("instance-selection", actor.name, attempt)
        threading.Thread(
            target=_settled,
            args=(future, partial(self._calculate, actor, state.open, attempt.by)),
            name=f"atoll-snapshot-{actor.name}-{attempt.number}",
            daemon=True,
        ).start()

    def _finish(self, actor: ActorProgram, wanted: Calculation, attempt: _Attempt) -> None:
        assert attempt.future is not None
        try:
            state = attempt.future.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next instance may do better
            self._fail(attempt, str(error))
            return
        self._told("snapshot-calculation", actor.name, attempt)
        body = {
            "number": wanted.number,
            "state": state,
            "by": attempt.by,
            "events": wanted.events,
        }
        record = self._running.control("offer", actor.name, body)
        self._running.append_once(f"offer/{actor.name}", wanted.number, [record])
        self._told("snapshot-offer", actor.name, attempt)
        attempt.future, attempt.error = None, None
        attempt.next = time.monotonic() + _RETRY_SECONDS_MAX  # until its microbatch has committed

    def _fail(self, attempt: _Attempt, error: str) -> None:
        _log.warning("a snapshot was not computed", runtime=self._name, by=attempt.by, error=error)
        attempt.future, attempt.error = None, error
        wait = min(_RETRY_SECONDS * 2 ** min(attempt.count, 10), _RETRY_SECONDS_MAX)
        attempt.next = time.monotonic() + wait

    def _told(self, step: str, actor: str, attempt: _Attempt) -> None:
        told = {"actor": actor, "snapshot": attempt.number, "by": attempt.by}
        _log.info(step, runtime=self._name, attempt=attempt.count, **told)

    @property
    def _name(self) -> str:
        return self._running.registered.unique_name


def calculated(running: RunningRuntime, actor: ActorProgram, wanted: Calculation, by: str) -> State:
    """The state of a calculation's range, as a Spark job for spark-batch where there is Spark.

    The instance that it is computed ``by`` makes no difference to what comes out.
    """
    depot = running.app.depot(EVENTS_LOG)
    end = depot.end_offsets()[0]
    # No event is in the log before it came in; a clock that was set back only costs time.
    since = depot.resolve_start(after_timestamp(wanted.since - 1_000))[0]
    given = msgspec.json.encode(running.program.definition.given)
    _log.debug("reading the event log", actor=actor.name, by=by, start=since, end=end)
    parts = _spark_parts(running, actor, wanted)
    log = Log(str(depot.folder), depot.spec.schema, since, end)
    try:
        return compute(running.program.name, given, actor.name, wanted, log, parts)
    except AtollError:
        start = depot.start_offsets()[0]
        if start >= since:
            raise
        log = msgspec.structs.replace(log, start=start)
        return compute(running.program.name, given, actor.name, wanted, log, parts)


def snapshot_tag(running: RunningRuntime, actor: str, number: int) -> str:
    """The group that the Spark jobs of a snapshot are in."""
    return f"atoll-snapshot-{running.app.name}-{actor}-{number}"


def _spark_parts(running: RunningRuntime, actor: ActorProgram, wanted: Calculation) -> RunParts:
    engine = running.app.engine
    if actor.declared.state.spark_batch is None or not isinstance(engine, SparkEngine):
        return in_this_process
    from atoll.spark.jobs.parts import run_parts

    tag = snapshot_tag(running, actor.name, wanted.number)

    def run(parts: Any) -> list[PartResult]:
        found = run_parts(engine.session, tag, _part, parts, msgspec.json.encode)
        return [msgspec.json.decode(each, type=PartResult) for each in found]

    return run


def _part(part: Part) -> PartResult:
    return part_of(part)


def _settled(future: Future[State], calculate: Callable[[], State]) -> None:
    try:
        future.set_result(calculate())
    except BaseException as error:  # noqa: BLE001 - told to whoever waits
        future.set_exception(error)


def snapshots_shown(running: SeenRuntime, worker: SnapshotWorker | None) -> dict[str, Any]:
    """The batch state calculator of a runtime, step by step, for each actor that has one."""
    found = {}
    attempts = {} if worker is None else worker.attempts()
    for name, actor in running.program.batch.items():
        state = load(running.pstate(CALCULATOR).get(name))
        instances = present(state)
        counts = {
            "runtime-creation": 1,
            "copy-registration": len(instances),
            "counter-tracking": state.total,
            "instance-selection": state.selections,
            "snapshot-calculation": state.offers,
            "snapshot-offer": state.offers,
            "actor-update": state.offers * len(instances),
        }
        modes = actor.declared.state
        found[name] = {
            "mode": "spark-batch" if modes.spark_batch is not None else "log-batch",
            "steps": {step: counts[step] for step in STEPS},
            "crossings": state.crossings,
            "superseded": state.superseded,
            "open": msgspec.to_builtins(state.open),
            "waiting": msgspec.to_builtins(state.waiting),
            "here": attempts.get(name),
            "last": {
                "number": state.last,
                "events": state.last_events,
                "by": state.last_by,
                "at": state.last_at,
            },
            "instances": {each: state.instances[each] for each in instances},
        }
    return {"runtime": running.registered.unique_name, "actors": found}
