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
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from atoll.cluster.cluster import Cluster
from atoll.errors import AtollError, ConflictError, DefinitionError, NotFoundError
from atoll.logs import get_logger
from atoll.runtime.definition.read import read_definition, unrunnable
from atoll.runtime.engine.intake import COPIES_MAX
from atoll.runtime.engine.program import RuntimeProgram
from atoll.runtime.service.effects.outside import Outside
from atoll.runtime.service.known import OWNER, Known
from atoll.runtime.service.lives import Lives, drain
from atoll.runtime.service.moving import check_movable, check_moves, unsaid
from atoll.runtime.service.registry import Registered, Registry, RuntimeChange, free_name
from atoll.runtime.service.running import RunningRuntime, SeenRuntime
from atoll.runtime.service.telling import at_rest
from atoll.runtime.snapshots.worker import SnapshotWorker, snapshots_shown
from atoll.storage.roots import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.cluster.app import App


Fate = Literal["keep", "drop", "move"]
"""What becomes of the state of copies that go, and of state by key."""

_log = get_logger("atoll.runtimes")


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
        super().__init__(Registry(open_store(cluster.root)))
        allowed = outside or Outside()
        self._lives = Lives(cluster, self.registry, self.program, worker, allowed)
        self._moving = threading.Lock()

    def open(self) -> None:
        """Bring back what there was: all that is not deleted, running what ran.

        One that cannot be brought back says why when it is asked for, and the others run.
        """
        with self._lives.lock:
            for each in list(self.registry.all().values()):
                try:
                    self._lives.follow(each)
                    if each.status == "stopped":
                        self._lives.rest(each)
                except AtollError as error:
                    _log.error(
                        "a runtime was not brought back", runtime=each.name, error=str(error)
                    )
                    self._lives.fail(each, error)

    def seen(self, runtime: Registered) -> SeenRuntime:
        """A runtime as its commits show it: as it runs here."""
        return self.running(runtime)

    def running(self, runtime: Registered) -> RunningRuntime:
        """A runtime as its module runs here.

        Raises:
            AtollError: Why it does not.
        """
        return self._lives.running(runtime)

    def failure(self, runtime: Registered) -> AtollError | None:
        """Why a runtime is not here as it should be; None when it is."""
        return self._lives.failure(runtime)

    def settled(self, runtime: Registered, timeout_seconds: float) -> RunningRuntime:
        """A runtime as its module runs here once the change that is being made is done.

        Raises:
            BusyError: When the change takes longer.
            AtollError: Why it does not run.
        """
        return self._lives.settled(runtime, timeout_seconds)

    def apps(self) -> dict[str, App]:
        """The modules of the runtimes here, by name."""
        return self._lives.apps()

    def snapshots(self, runtime: Registered) -> dict[str, Any]:
        """The batch state calculator of a runtime, step by step."""
        running = self.running(runtime)
        return snapshots_shown(running, self._lives.here[runtime.id].snapshots)

    def effects(self, runtime: Registered) -> dict[str, Any] | None:
        """How far what a runtime asked for outside is; None when it can ask for nothing."""
        self.running(runtime)
        worker = self._lives.here[runtime.id].effects
        return None if worker is None else worker.shown()

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

        def decide(known: dict[str, Registered]) -> RuntimeChange:
            taken = [each.name for each in known.values() if each.owner == owner]
            name = free_name(definition.name, taken)
            rest = {key: value for key, value in given.items() if key not in {"name", "owner"}}
            return RuntimeChange(
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

        def decide(known: dict[str, Registered]) -> RuntimeChange:
            if _present(known, runtime).status == "running":
                raise ConflictError(f"runtime {runtime.name!r} runs already", hint="leave it so")
            return RuntimeChange("started", runtime.id, _now_ms())

        return self._changed(decide, runtime)

    def stop(self, runtime: Registered) -> Registered:
        """Let a runtime rest, once all is processed that it had accepted.

        Raises:
            ConflictError: When it does not run.
        """

        def decide(known: dict[str, Registered]) -> RuntimeChange:
            if _present(known, runtime).status != "running":
                raise ConflictError(f"runtime {runtime.name!r} does not run", hint="leave it so")
            return RuntimeChange("stopped", runtime.id, _now_ms())

        changed = self._changed(decide, runtime)
        self._lives.rest(changed)
        return changed

    def scale(self, runtime: Registered, copies: int, state: Fate | None = None) -> Registered:
        """Change how many copies a runtime has, while it runs.

        Args:
            runtime: The runtime.
            copies: How many from now on.
            state: What becomes of the state of copies that go, where there is any: ``keep`` it,
                for when there are as many copies again, or ``drop`` it. State by key can ``move``
                to the copies that own the keys from then on.

        Raises:
            ConflictError: When copies go that have state, and it is not said what becomes of it;
                or it cannot be moved.
            BusyError: When too many accepted events wait to move state behind them.
        """
        if not 1 <= copies <= COPIES_MAX:
            raise DefinitionError(
                f"a runtime cannot have {copies} copies", hint=f"use 1 to {COPIES_MAX}", problems=[]
            )
        program = self.program(runtime)
        if program.stateful and state == "move":
            return self._moved(runtime, program, copies)

        def decide(known: dict[str, Registered]) -> RuntimeChange:
            before = _present(known, runtime)
            moves = program.definition.distribution.by is not None and copies != before.copies
            if program.stateful and state is None and (copies < before.copies or moves):
                raise unsaid(before, program, copies)
            return RuntimeChange(
                "scaled", runtime.id, _now_ms(), copies=copies, drop=state == "drop"
            )

        return self._changed(decide, runtime)

    def delete(self, runtime: Registered) -> Registered:
        """Delete a runtime and all that it kept; its name is never given again."""

        def decide(known: dict[str, Registered]) -> RuntimeChange:
            _present(known, runtime)
            return RuntimeChange("deleted", runtime.id, _now_ms())

        return self._changed(decide)

    def close(self) -> None:
        """Stop what runs beside the modules; these are the cluster's to close."""
        self._lives.close()

    # Inside ---------------------------------------------------------------------------------------

    def _changed(
        self,
        decide: Callable[[dict[str, Registered]], RuntimeChange],
        runtime: Registered | None = None,
    ) -> Registered:
        """Make a change, behind all that follows from the runtime's last one."""
        with self._lives.lock:
            if runtime is not None:
                self._lives.catch_up(runtime)
            changed = self.registry.change(decide)
            _log.info(
                "runtime " + changed.last, runtime=changed.unique_name, revision=changed.revision
            )
            self._lives.follow(changed)
            return changed

    def _moved(self, runtime: Registered, program: RuntimeProgram, copies: int) -> Registered:
        """Change the copies and move state by key: behind all accepted events, before any other."""
        check_movable(runtime, program)

        def decide(known: dict[str, Registered]) -> RuntimeChange:
            _present(known, runtime)
            return RuntimeChange("scaled", runtime.id, _now_ms(), copies=copies, move=True)

        with self._moving:
            running = self.running(runtime)
            running.gate.close()
            try:
                drain(running)
                with self._lives.lock:
                    if self.running(runtime) is not running:
                        raise ConflictError(
                            f"runtime {runtime.name!r} was changed meanwhile", hint="ask again"
                        )
                    with at_rest(running):
                        check_moves(running.places(), copies)
                    return self._changed(decide, runtime)
            finally:
                running.gate.open()


def _present(known: dict[str, Registered], runtime: Registered) -> Registered:
    """The runtime as it is now.

    Raises:
        NotFoundError: When it was deleted meanwhile.
    """
    found = known[runtime.id]
    if found.status == "deleted":
        raise NotFoundError(f"runtime {found.name!r} was deleted", hint="make another one")
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
