"""All runtimes of a root as this process runs them: made, started, stopped, scaled, deleted.

Each change is an object of the registry first, then what follows from it: a record of the intake
(``start``, ``stop``, ``drop``), appended once under the change's number; the topology paused or
let go on; the module deployed with another number of copies. All of that can be done again, so
whoever is killed in between leaves it to the next who opens the root (:meth:`Runtimes.open`).

A runtime's module is deployed as soon as the runtime is made, and paused unless it runs. So state
and statistics can be read at any time. A runtime that does not run refuses events. What it had
accepted before is kept, in order, and processed: before the stop takes effect.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from atoll.cluster.cluster import Cluster
from atoll.errors import AtollError, BusyError, ConflictError, DefinitionError, NotFoundError
from atoll.logs import get_logger
from atoll.runtime.definition.read import read_definition, unrunnable
from atoll.runtime.engine.compile import TOPOLOGY, module_of
from atoll.runtime.engine.intake import COPIES_MAX
from atoll.runtime.service.effects import EffectWorker
from atoll.runtime.service.known import OWNER, Known
from atoll.runtime.service.outside import Outside
from atoll.runtime.service.registry import Change, Registered, Registry, free_name
from atoll.runtime.service.running import RunningRuntime, SeenRuntime
from atoll.runtime.snapshots.worker import SnapshotWorker, snapshots_shown
from atoll.storage.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.cluster.app import App

__all__ = ["OWNER", "Fate", "Runtimes"]

Fate = Literal["keep", "drop"]
"""What becomes of the state of copies that go."""

_log = get_logger("atoll.runtimes")


@dataclass
class _Here:
    """What runs here of a runtime and beside it, or why it does not."""

    running: RunningRuntime | None = None
    snapshots: SnapshotWorker | None = None
    effects: EffectWorker | None = None
    failure: AtollError | None = None

    def leave(self) -> None:
        """Say that its module is about to be closed, and end what runs beside it."""
        if self.running is not None:
            self.running.left = True
        self.end()

    def end(self) -> None:
        """End what runs beside the module."""
        if self.snapshots is not None:
            self.snapshots.close()
        if self.effects is not None:
            self.effects.close()


class Runtimes(Known):
    """The runtimes of a root. Safe from many threads; one change at a time.

    Args:
        cluster: Runs their modules.
        worker: Makes what computes and offers the snapshots of a runtime.
        outside: What runtimes may reach; nothing unless given.
    """

    def __init__(
        self,
        cluster: Cluster,
        worker: Callable[[RunningRuntime], SnapshotWorker] = SnapshotWorker,
        outside: Outside | None = None,
    ) -> None:
        """Nothing runs; see :meth:`open`."""
        self.outside = outside or Outside()
        self._worker = worker
        self.cluster = cluster
        super().__init__(Registry(LocalStore(cluster.root)))
        self._here: dict[str, _Here] = {}
        self._lock = threading.RLock()

    def open(self) -> None:
        """Bring back what there was: all that is not deleted, running what ran.

        One that cannot be brought back says why when it is asked for, and the others run.
        """
        with self._lock:
            for each in list(self.registry.all().values()):
                try:
                    self._follow(each)
                except AtollError as error:
                    _log.error(
                        "a runtime was not brought back", runtime=each.name, error=str(error)
                    )
                    self._here[each.id] = _Here(failure=error)

    def seen(self, runtime: Registered) -> SeenRuntime:
        """A runtime as its commits show it: as it runs here."""
        return self.running(runtime)

    def running(self, runtime: Registered) -> RunningRuntime:
        """A runtime as its module runs here.

        Raises:
            AtollError: Why it does not.
        """
        here = self._here.get(runtime.id)
        if here is not None and here.failure is not None:
            raise here.failure
        if here is None or here.running is None:
            raise NotFoundError(f"runtime {runtime.name!r} was deleted", hint="make another one")
        fenced = here.running.app.fenced
        if fenced is not None:
            raise fenced
        return here.running

    def failure(self, runtime: Registered) -> AtollError | None:
        """Why a runtime is not here as it should be; None when it is."""
        here = self._here.get(runtime.id)
        if here is None:
            return None
        return here.failure or (here.running.app.fenced if here.running is not None else None)

    def settled(self, runtime: Registered, timeout_seconds: float) -> RunningRuntime:
        """A runtime as its module runs here once the change that is being made is done.

        Raises:
            BusyError: When the change takes longer.
            AtollError: Why it does not run.
        """
        if not self._lock.acquire(timeout=timeout_seconds):
            raise BusyError(
                f"runtime {runtime.name!r} is being changed", hint="send again in a while"
            )
        self._lock.release()
        return self.running(runtime)

    def snapshots(self, runtime: Registered) -> dict[str, Any]:
        """The batch state calculator of a runtime, step by step."""
        running = self.running(runtime)
        return snapshots_shown(running, self._here[runtime.id].snapshots)

    def effects(self, runtime: Registered) -> dict[str, Any] | None:
        """How far what a runtime asked for outside is; None when it can ask for nothing."""
        self.running(runtime)
        worker = self._here[runtime.id].effects
        return None if worker is None else worker.shown()

    def apps(self) -> dict[str, App]:
        """The modules of the runtimes here, by name."""
        found = [each.running.app for each in list(self._here.values()) if each.running is not None]
        return {app.name: app for app in found}

    # -- changes ----------------------------------------------------------------------------------

    def create(self, given: Mapping[str, Any]) -> Registered:
        """Make a runtime, which does not run yet.

        Its owner is whom the definition names, or Coral's user of accept-all: nobody is asked who
        they are yet. Its name is changed when the owner has ever had one of that name.

        Raises:
            DefinitionError: With everything that is wrong with the definition.
        """
        definition = read_definition(dict(given))
        owner = definition.owner or OWNER

        def decide(known: dict[str, Registered]) -> Change:
            taken = [each.name for each in known.values() if each.owner == owner]
            name = free_name(definition.name, taken)
            rest = {key: value for key, value in given.items() if key not in {"name", "owner"}}
            return Change(
                "created",
                str(uuid.uuid4()),
                _now_ms(),
                owner,
                name,
                {"name": name, "owner": owner, **rest},
                definition.distribution.copies,
            )

        return self._changed(decide)

    def start(self, runtime: Registered) -> Registered:
        """Let a runtime process events.

        Raises:
            ConflictError: When it runs, or has an actor that this version cannot run.
        """
        program = self.program(runtime)
        reasons = unrunnable(program.definition)
        if reasons:
            raise ConflictError(
                f"runtime {runtime.name!r} cannot run: {reasons[0].what}",
                hint=reasons[0].hint,
                problems=[msgspec.to_builtins(each) for each in reasons],
            )

        def decide(known: dict[str, Registered]) -> Change:
            if _present(known, runtime).status == "running":
                raise ConflictError(f"runtime {runtime.name!r} runs already", hint="leave it so")
            return Change("started", runtime.id, _now_ms())

        return self._changed(decide)

    def stop(self, runtime: Registered) -> Registered:
        """Let a runtime rest, once all is processed that it had accepted.

        Raises:
            ConflictError: When it does not run.
        """

        def decide(known: dict[str, Registered]) -> Change:
            if _present(known, runtime).status != "running":
                raise ConflictError(f"runtime {runtime.name!r} does not run", hint="leave it so")
            return Change("stopped", runtime.id, _now_ms())

        return self._changed(decide)

    def scale(self, runtime: Registered, copies: int, state: Fate | None = None) -> Registered:
        """Change how many copies a runtime has, while it runs.

        Args:
            runtime: The runtime.
            copies: How many from now on.
            state: What becomes of the state of copies that go, where there is any: ``keep`` it,
                for when there are as many copies again, or ``drop`` it.

        Raises:
            ConflictError: When copies go that have state, and it is not said what becomes of it.
        """
        if not 1 <= copies <= COPIES_MAX:
            raise DefinitionError(
                f"a runtime cannot have {copies} copies", hint=f"use 1 to {COPIES_MAX}", problems=[]
            )
        program = self.program(runtime)

        def decide(known: dict[str, Registered]) -> Change:
            before = _present(known, runtime)
            moves = program.definition.distribution.by is not None and copies != before.copies
            if program.stateful and state is None and (copies < before.copies or moves):
                raise _unsaid(before, copies, moves=moves)
            return Change("scaled", runtime.id, _now_ms(), copies=copies, drop=state == "drop")

        return self._changed(decide)

    def delete(self, runtime: Registered) -> Registered:
        """Delete a runtime and all that it kept; its name is never given again."""

        def decide(known: dict[str, Registered]) -> Change:
            _present(known, runtime)
            return Change("deleted", runtime.id, _now_ms())

        return self._changed(decide)

    def close(self) -> None:
        """Stop what runs beside the modules; these are the cluster's to close."""
        with self._lock:
            for each in self._here.values():
                each.end()

    # Inside ---------------------------------------------------------------------------------------

    def _changed(self, decide: Any) -> Registered:
        with self._lock:
            changed = self.registry.change(decide)
            _log.info(
                "runtime " + changed.last, runtime=changed.unique_name, revision=changed.revision
            )
            self._follow(changed)
            return changed

    def _follow(self, runtime: Registered) -> None:
        """Do what follows from the last change of a runtime; doing it again changes nothing."""
        if runtime.status == "deleted":
            self._here.pop(runtime.id, _Here()).leave()
            self.cluster.remove(runtime.module)
            return
        running = self._deployed(runtime)
        topology = running.app.topology(TOPOLOGY)
        self._tell(running)
        if runtime.status == "running":
            topology.resume()
            return
        if runtime.status == "stopped" and topology.status()["state"] == "running":
            try:
                running.wait_all()
            except AtollError as error:  # it rests all the same, and goes on from here
                _log.warning("stopped early", runtime=runtime.unique_name, error=str(error))
        topology.pause()

    def _deployed(self, runtime: Registered) -> RunningRuntime:
        """Its module, deployed with as many copies as it has now."""
        known = self._here.get(runtime.id)
        if known is not None and known.running is not None:
            before = known.running.registered
            if before.copies == runtime.copies:
                known.running.registered = runtime
                return known.running
            known.leave()
        program = self.program(runtime)
        module = module_of(runtime.module, runtime.unique_name, program.definition, runtime.copies)
        app = self.cluster.deploy(module)
        if runtime.status == "created":
            app.topology(TOPOLOGY).pause()
        running = RunningRuntime(runtime, program, app)
        here = self._here[runtime.id] = _Here(running)
        if program.batch:
            here.snapshots = self._worker(running)
            here.snapshots.start()
        if program.effects:
            here.effects = EffectWorker(running, self.outside)
            here.effects.start()
        return running

    def _tell(self, running: RunningRuntime) -> None:
        """Append what the copies have to know of the last change, once."""
        runtime = running.registered
        life = {"revision": runtime.revision}
        records = []
        if runtime.last == "started":
            records = [running.control("start", "", life)]
        elif runtime.last == "stopped":
            records = [running.control("stop", "", life)]
        elif runtime.last == "scaled":
            gone = range(runtime.copies + 1, runtime.copies_before + 1) if runtime.drop else ()
            records = [running.control("drop", "", life, copy) for copy in gone]
            if runtime.status == "running":
                first = {**life, "from": runtime.copies_before + 1}
                records.append(running.control("start", "", first))
            records += running.last_offers()
        if records:
            running.append_once("life", runtime.revision, records)


def _present(known: dict[str, Registered], runtime: Registered) -> Registered:
    """The runtime as it is now.

    Raises:
        NotFoundError: When it was deleted meanwhile.
    """
    found = known[runtime.id]
    if found.status == "deleted":
        raise NotFoundError(f"runtime {found.name!r} was deleted", hint="make another one")
    return found


def _unsaid(runtime: Registered, copies: int, *, moves: bool) -> ConflictError:
    what = "the state of copies that go" if copies < runtime.copies else "state by key"
    because = "; events find another copy by their key then" if moves else ""
    return ConflictError(
        f"runtime {runtime.name!r} has state, and it is not said what becomes of {what}{because}",
        hint='say "state": "keep" (it stays with its copy, to be used when there are as many '
        'copies again) or "state": "drop" (the state of copies that go is deleted); atoll runtime '
        "scale has an option for it",
        choices=["keep", "drop"],
        copies=runtime.copies,
        wanted=copies,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
