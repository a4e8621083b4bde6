"""Runs a module in a test, one microbatch when it is told to.

It is a cluster like any other (the same coordinator, actions, depots, stores and objects), only
that nothing moves by itself: no thread takes microbatches, and the clock stands still. So a test
says what is in a microbatch, what fails, and when time passes, and gets the same result each time.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from atoll.cluster.clockwork import Drive
from atoll.cluster.local import LocalCluster
from atoll.errors import UsageError
from atoll.microbatch.outcome import failure_of
from atoll.testing.changes import Change, changes_between
from atoll.testing.clock import VirtualClock
from atoll.testing.failing import INJECTED
from atoll.testing.hand_loop import HandLoop
from atoll.testing.result import Ran, ran
from atoll.views.names import part_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from atoll.cluster.app import App
    from atoll.cluster.engines import EngineName
    from atoll.cluster.topologies import RunningTopology
    from atoll.depot.depot import Depot
    from atoll.module import Microbatch, Module
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration, V
    from atoll.views.readable import ReadablePState
    from atoll.views.typed import TypedPState

__all__ = ["TopologyTestDriver"]


class _HandCluster(LocalCluster):
    """A cluster that a driver moves."""

    def __init__(self, drive: Drive, root: Path | str | None, **settings: Any) -> None:
        super().__init__(root, **settings)
        self._drive = drive


class TopologyTestDriver:
    """A module under test; nothing happens in it but what the test asks for.

    Args:
        module: What to run.
        root: The folder of everything that lasts; a temporary one, removed at the end, when None.
        parallelism: How many actors each topology has.
        engine: ``auto``: Spark only for topologies with steps that need it, and started only
            then. ``spark`` and ``inline`` as for :class:`LocalCluster`.
        clock: The virtual clock; a new one at the beginning of 2026 when None.
        session: A Spark session to use where Spark is needed.

    Example:
        >>> with TopologyTestDriver(module) as driver:          # doctest: +SKIP
        ...     driver.depot("numbers").append([{"v": 1}])
        ...     driver.microbatch()
        ...     assert driver.pstate("global_sum").get() == 1
    """

    def __init__(  # each is a keyword that users choose by itself
        self,
        module: Module,
        *,
        root: Path | str | None = None,
        parallelism: int = 2,
        engine: EngineName = "auto",
        clock: VirtualClock | None = None,
        session: SparkSession | None = None,
    ) -> None:
        """Deploy; no microbatch runs yet."""
        self.clock = clock or VirtualClock()
        self._loops: dict[str, HandLoop] = {}
        self.cluster: LocalCluster = _HandCluster(
            Drive(self._make_loop, self.clock.now_ms, self.clock.now_ms, watched=False),
            root,
            parallelism=parallelism,
            engine=engine,
            session=session,
        )
        self._module = module
        try:
            self.app: App = self.cluster.deploy(module)
        except BaseException:
            self.cluster.close()
            raise

    # What the module has --------------------------------------------------------------------------

    def depot(self, name: str | DepotDeclaration[Any]) -> Depot:
        """A depot, to append to and to read."""
        return self.app.depot(name)

    @overload
    def pstate(self, name: PStateDeclaration[V]) -> TypedPState[V]: ...
    @overload
    def pstate(self, name: str) -> ReadablePState: ...
    def pstate(self, name: str | PStateDeclaration[Any]) -> ReadablePState | TypedPState[Any]:
        """A PState, to read as of the last commit: as it was declared, or plain by its name."""
        return self.app.pstate(name)

    def topology(self, name: str | Microbatch) -> RunningTopology:
        """A topology, to pause, roll back and look at. What it waits for happens at once."""
        return self.app.topology(name)

    def status(self, topology: str | None = None) -> dict[str, Any]:
        """The status of a topology; without a name, of the only one."""
        return self.app.topology(self._loop(topology).topology).status()

    def changes(self, pstate: str | PStateDeclaration[Any]) -> list[Change]:
        """What the last microbatch of its topology changed in a PState, by key."""
        readable = self.app.pstate(part_name(pstate, self.app.name))
        last = self._loops[readable.spec.topology].published.id
        if last == 0:
            return []
        return changes_between(readable.as_of(last - 1), readable)

    # What happens ---------------------------------------------------------------------------------

    def microbatch(
        self, topology: str | None = None, *, max_records: int | None = None
    ) -> Ran | None:
        """Run one microbatch of a topology to its commit; attempts that fail are tried again.

        Args:
            topology: Which one; needed when the module has several.
            max_records: The most records to take from one depot partition; the option
                ``depot.microbatch.max.records`` when None.

        Returns:
            What it did; None when no records wait and nothing is due.

        Raises:
            UsageError: When the topology is paused, or it is not said which.
            TopologyFailedError: When too many attempts failed.
            NotFoundError: When there is no such topology.
        """
        self.app.take_parcels()
        commit = self._loop(topology).microbatch(max_records)
        return None if commit is None else ran(commit)

    def run(self) -> list[Ran]:
        """Run one microbatch of each topology that has records waiting and is not paused."""
        self.app.take_parcels()
        done = [loop.microbatch() for loop in self._loops.values() if not loop.paused]
        return [ran(commit) for commit in done if commit is not None]

    def run_until_idle(self, microbatches_max: int = 1_000) -> list[Ran]:
        """Run microbatches of all topologies in turn until no records wait.

        Args:
            microbatches_max: How many at most: topologies that append to each other may never end.

        Raises:
            UsageError: When there were more.
        """
        done: list[Ran] = []
        idle = 0
        loops = list(self._loops.values())
        while len(done) <= microbatches_max:
            self.app.take_parcels()
            if idle == len(loops):
                return done
            loop = loops.pop(0)
            loops.append(loop)
            commit = None if loop.paused else loop.microbatch()
            idle = idle + 1 if commit is None else 0
            if commit is not None:
                done.append(ran(commit))
        raise UsageError(
            f"more than {microbatches_max} microbatches, and records may still wait",
            hint="do topologies append to depots in a circle? else raise microbatches_max",
        )

    def write_sinks(self) -> int:
        """Write all that waits for sinks; returns how many microbatches' rows.

        Raises:
            Exception: What the first failing sink raised, after the others were written.
        """
        return self.app.write_sinks()

    def step(self, topology: str | None = None) -> str:
        """Take the next numbered step of a microbatch, to look or to restart between two.

        Returns:
            ``prime``, ``process``, ``commit``, ``publish`` or ``tidy``; ``failed`` when an attempt
            failed, ``idle`` when no records wait.
        """
        return self._loop(topology).step()

    def advance(self, seconds: float) -> None:
        """Let time pass; nothing runs by that."""
        self.clock.advance(seconds)

    def fail_next_attempt(
        self,
        topology: str | None = None,
        *,
        times: int = 1,
        after_work: bool = False,
        error: Exception | None = None,
    ) -> None:
        """Let the next attempt at a microbatch fail.

        Args:
            topology: Whose; needed when the module has several.
            times: How many attempts in a row.
            after_work: Let all tasks do their work before, so that the next attempt has to undo
                what they left.
            error: As which error it fails; one of the test's own when None.
        """
        if times < 1:
            raise UsageError(f"{times} attempts cannot fail", hint="choose 1 or more")
        failure = INJECTED if error is None else failure_of(error)
        self._loop(topology).executor.fail_next(failure, times, after_work=after_work)

    # Lives ----------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Begin a new life on the same storage, as after the process was killed here.

        A microbatch that has not committed begins again, with the same records.
        """
        self.cluster.kill()
        self.app = self.cluster.deploy(self._module)

    def update(self, module: Module, *, remove: Collection[str] = ()) -> None:
        """Replace the module by another version of it.

        Args:
            module: The new version.
            remove: What may go, as for ``cluster.deploy``.

        Raises:
            DeployError: When it does not fit what is deployed, or cannot be started; the one
                before goes on.
            UsageError: When it is another module.
        """
        if module.name != self._module.name:
            raise UsageError(
                f"module {module.name!r} is no version of {self._module.name!r}",
                hint="give it the same name, or make a driver of its own for it",
            )
        try:
            self.app = self.cluster.update(module, remove=remove)
        finally:  # the version before may have been started again
            self.app = self.cluster.apps.get(module.name, self.app)
            for gone in self._loops.keys() - set(self.app.topologies()):
                del self._loops[gone]
        self._module = module

    def close(self) -> None:
        """End; remove the folder if it was a temporary one."""
        self.cluster.close()

    def __enter__(self) -> Self:
        """The driver itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    # Inside ---------------------------------------------------------------------------------------

    def _make_loop(self, *arguments: Any, **keywords: Any) -> HandLoop:
        loop = HandLoop(*arguments, clock=self.clock, **keywords)
        self._loops[loop.topology] = loop
        return loop

    def _loop(self, topology: str | None) -> HandLoop:
        names = self.app.topologies()
        if topology is None and len(names) != 1:
            raise UsageError(
                f"module {self.app.name!r} has {len(names)} topologies",
                hint="name one of " + ", ".join(names) if names else "it has nothing to run",
            )
        return self._loops[self.app.topology(topology or names[0]).name]
