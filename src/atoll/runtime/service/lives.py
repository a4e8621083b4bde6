"""What runs in this process of each runtime: its module, deployed as the registry says.

All of it follows from the registry's changes and can be done again, so whoever is killed in
between leaves it to the next who opens the root.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from atoll.cluster.cluster import Cluster
from atoll.errors import AtollError, BusyError, ConflictError, NotFoundError, WaitTimeoutError
from atoll.logs import get_logger
from atoll.runtime.engine.compile import TOPOLOGY, module_of
from atoll.runtime.engine.program import RuntimeProgram
from atoll.runtime.service.effects.outside import Outside
from atoll.runtime.service.effects.worker import EffectWorker
from atoll.runtime.service.here import Here
from atoll.runtime.service.registry import Registered, Registry
from atoll.runtime.service.running import RunningRuntime
from atoll.runtime.service.telling import told
from atoll.runtime.snapshots.worker import SnapshotWorker

if TYPE_CHECKING:
    from atoll.cluster.app import App


_log = get_logger("atoll.runtimes")

_REST_SECONDS = 60.0
"""So long a runtime that is stopped may process what it had accepted."""
_DRAIN_SECONDS = 20.0
_LOOK_SECONDS = 0.5


class Lives:
    """The modules of runtimes, and what works beside them.

    Args:
        cluster: Runs the modules.
        registry: Which runtimes there are.
        program_of: What the copies of a runtime run.
        worker: Makes what computes and offers the snapshots of a runtime.
        outside: What runtimes may reach.

    Attributes:
        here: By id what runs.
        lock: Held while a runtime is changed.
    """

    def __init__(
        self,
        cluster: Cluster,
        registry: Registry,
        program_of: Callable[[Registered], RuntimeProgram],
        worker: Callable[[RunningRuntime], SnapshotWorker],
        outside: Outside,
    ) -> None:
        """Nothing runs."""
        self.here: dict[str, Here] = {}
        self.lock = threading.RLock()
        self._cluster = cluster
        self._registry = registry
        self._program_of = program_of
        self._worker = worker
        self._outside = outside

    def running(self, runtime: Registered) -> RunningRuntime:
        """A runtime as its module runs here.

        Raises:
            AtollError: Why it does not.
        """
        here = self.here.get(runtime.id)
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
        here = self.here.get(runtime.id)
        if here is None:
            return None
        return here.failure or (here.running.app.fenced if here.running is not None else None)

    def settled(self, runtime: Registered, timeout_seconds: float) -> RunningRuntime:
        """A runtime as its module runs here once the change that is being made is done.

        Raises:
            BusyError: When the change takes longer.
            AtollError: Why it does not run.
        """
        until = time.monotonic() + timeout_seconds
        if self.lock.acquire(timeout=timeout_seconds):
            self.lock.release()
            running = self.running(runtime)
            if running.gate.wait(until - time.monotonic()):
                return running
        raise BusyError(f"runtime {runtime.name!r} is being changed", hint="send again in a while")

    def apps(self) -> dict[str, App]:
        """The modules of the runtimes here, by name."""
        found = [each.running.app for each in list(self.here.values()) if each.running is not None]
        return {app.name: app for app in found}

    def close(self) -> None:
        """End what works beside the modules; these are the cluster's to close."""
        with self.lock:
            for each in self.here.values():
                each.end()

    def catch_up(self, runtime: Registered) -> None:
        """Do what has still to follow from the last change of a runtime.

        A failure has held it up, or another process has made the change.
        """
        last = self._registry.all()[runtime.id]
        here = self.here.get(runtime.id)
        running = None if here is None else here.running
        if last.status != "deleted" and (running is None or running.followed != last.revision):
            self.follow(last)

    def follow(self, runtime: Registered) -> None:
        """Do what follows from the last change of a runtime; doing it again changes nothing.

        One that was stopped rests later: see :meth:`rest`.
        """
        if runtime.status == "deleted":
            self.here.pop(runtime.id, Here()).leave()
            self._cluster.remove(runtime.module)
            return
        running = self._deployed(runtime)
        topology = running.app.topology(TOPOLOGY)
        records = told(running)
        if records:
            running.append_once("life", runtime.revision, records)
        if runtime.status == "running":
            topology.resume()
        elif runtime.last != "stopped":
            topology.pause()
        if not running.followed:
            running.gate.open()
        running.followed = runtime.revision

    def fail(self, runtime: Registered, error: AtollError) -> None:
        """Say why a runtime is not here, and end what is."""
        self.here.pop(runtime.id, Here()).leave()
        self.here[runtime.id] = Here(failure=error)

    def rest(self, runtime: Registered) -> None:
        """Let a runtime rest once all is processed that it had accepted, unless it is changed.

        Others are changed meanwhile; what a minute was not enough for waits for the next start.
        """
        running = self.running(runtime)
        topology = running.app.topology(TOPOLOGY)
        until = time.monotonic() + _REST_SECONDS
        while topology.status()["state"] == "running" and self._is_last(runtime):
            try:
                running.wait_all(_LOOK_SECONDS)
                break
            except WaitTimeoutError:
                if time.monotonic() < until:
                    continue
                _log.warning("stopped early", runtime=runtime.unique_name)
            except AtollError as error:  # it rests all the same, and goes on from here
                _log.warning("stopped early", runtime=runtime.unique_name, error=str(error))
            break
        with self.lock:
            if self._is_last(runtime):
                topology.pause()

    # Inside ---------------------------------------------------------------------------------------

    def _is_last(self, runtime: Registered) -> bool:
        """Whether a change is the last one of its runtime."""
        return self._registry.all()[runtime.id].revision == runtime.revision

    def _deployed(self, runtime: Registered) -> RunningRuntime:
        """Its module, deployed with as many copies as it has now."""
        known = self.here.get(runtime.id)
        if known is not None and known.running is not None:
            before = known.running.registered
            if before.copies == runtime.copies:
                known.running.registered = runtime
                return known.running
            if runtime.last == "scaled" and runtime.move:
                known.running.gate.close()
                drain(known.running)
            known.leave()
        program = self._program_of(runtime)
        module = module_of(runtime.module, runtime.unique_name, program.definition, runtime.copies)
        app = self._cluster.deploy(module)
        if runtime.status == "created":
            app.topology(TOPOLOGY).pause()
        running = RunningRuntime(runtime, program, app)
        running.gate.close()  # until the copies know what the change means for them
        here = self.here[runtime.id] = Here(running)
        if program.batch:
            here.snapshots = self._worker(running)
            here.snapshots.start()
        if program.effects:
            here.effects = EffectWorker(running, self._outside)
            here.effects.start()
        return running


def drain(running: RunningRuntime) -> None:
    """Wait until all is processed that was accepted.

    Raises:
        ConflictError: When it rests.
        BusyError: When that takes long.
    """
    runs = running.registered.status == "running"
    try:
        running.wait_all(_DRAIN_SECONDS if runs else 0.0)
    except WaitTimeoutError:
        name = running.registered.name
        if not runs:
            raise ConflictError(
                f"runtime {name!r} rests before all that it accepted is processed",
                hint="start it, then move its state",
            ) from None
        raise BusyError(
            f"what runtime {name!r} has accepted is not processed in {_DRAIN_SECONDS:g} s, and "
            "state moves behind it",
            hint="ask again when less waits",
        ) from None
