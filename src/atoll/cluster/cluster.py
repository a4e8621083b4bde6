"""Runs modules: deploys them, keeps them running, and tells them who is in the cluster.

What kinds of clusters there are differs in two things only: the engine that runs the attempts,
and how it is known which workers there are.

A deployment has four phases. *Prepare* checks everything that can refuse, while the version before
runs (:mod:`atoll.cluster.versions`). *Stop* ends that one after its running microbatches. *Switch*
and *start* begin a new life (:mod:`atoll.cluster.lives`). When one of the last three fails, the
version before is started again: in the end a module runs, or says why it does not and is started
as soon as it can be.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from atoll.cluster.app import App
from atoll.cluster.changes import DeployPlan
from atoll.cluster.drive import Drive
from atoll.cluster.failing import not_started, nothing_runs
from atoll.cluster.lives import Lives
from atoll.cluster.resting import RestingCluster
from atoll.cluster.revisions import Revisions
from atoll.cluster.reviving import Reviver
from atoll.cluster.sizes import vnode_bytes
from atoll.cluster.standing import Standing
from atoll.cluster.stopped import StoppedModule
from atoll.cluster.versions import Version, checked_version
from atoll.errors import AtollError, FencedError, NotFoundError
from atoll.logs import get_logger
from atoll.placement.deploying import WorkerReport
from atoll.placement.info import ClusterInfo
from atoll.storage.local import LocalStore
from atoll.tasks.sessions import state_folder
from atoll.views.deployment import latest_deployment

if TYPE_CHECKING:
    from collections.abc import Collection

    from atoll.cluster.engines import Engine
    from atoll.cluster.scaling import Scaling
    from atoll.microbatch.stepping import Observer
    from atoll.module import Module
    from atoll.storage.places import Places
    from atoll.views.deployment import Deployment

__all__ = ["Cluster"]

_log = get_logger("atoll.cluster")


class Cluster(ABC):
    """What all clusters do alike.

    Args:
        places: Where everything lies.
        engine: What runs the attempts.
        observer: Called after each numbered step of every microbatch, for tests and tools.
        drive: What moves the topologies; threads when None.

    Attributes:
        apps: The modules that run, by name.
        stopped: The modules that should run and do not, by name.
    """

    def __init__(
        self,
        places: Places,
        engine: Engine,
        observer: Observer | None,
        drive: Drive | None = None,
    ) -> None:
        """Nothing runs yet."""
        self.places = places
        self.root = places.root
        self.apps: dict[str, App] = {}
        self.stopped: dict[str, StoppedModule] = {}
        self._engine = engine
        self._observer = observer
        self._drive = drive or Drive()
        self._standing: dict[str, Standing] = {}
        self._deploying = threading.RLock()
        self._reviver = Reviver(self._revive_all)
        self._listeners: list[Callable[[App | StoppedModule], None]] = []

    @abstractmethod
    def present(self) -> list[WorkerReport]:
        """The workers that there are now."""

    def plan(self, module: Module, *, remove: Collection[str] = ()) -> DeployPlan:
        """What deploying a module would change, without changing anything.

        Whatever can be known to stand in the way is among the changes as *refused*.

        Args:
            module: The new version.
            remove: What may go, as for :meth:`deploy`.

        Raises:
            DeclarationError: When the module has a mistake.
            DeployError: When a migration cannot be taken over.
            UsageError: When something to remove is not deployed, or still declared.
        """
        return self._prepare(module, remove).plan

    def deploy(self, module: Module, *, remove: Collection[str] = ()) -> App:
        """Check a module in full, then run it, from where its last commit ended if it ran before.

        What is refused changes nothing: a version that runs goes on. When the new version was not
        refused and yet cannot be started (the disk is full, say), the version before is started
        again, as another app: ``apps[name]``.

        Args:
            module: The module.
            remove: What is deployed, no longer declared, and shall go with its data:
                ``depot:name``, ``pstate:name``, or ``topology:name`` with its PStates.

        Raises:
            DeclarationError: When the module has a mistake; nothing has started then.
            DeployError: When the root holds a deployment of it that it does not fit, or it could
                not be started; it says what runs then.
            UsageError: When something to remove is not deployed, or still declared.
            FencedError: When another process runs the module by now.
        """
        with self._deploying:
            version = self._prepare(module, remove)
            version.plan.check()
            running = self.apps.get(module.name)
            if running is not None:
                running.epoch.check()
                running.prepare_update(version.bound)
            standing = self._stood(module.name)
            try:
                if running is not None:
                    running.close()
                    standing = self._stood(module.name)  # workers may have come until then
                app = self._start(version, standing)
            except BaseException as error:
                if standing is None:
                    raise
                told = self._bring_back(standing, error)
                if told is error:
                    raise
                raise told from error
        self._tell(app)
        return app

    def update(self, module: Module, *, remove: Collection[str] = ()) -> App:
        """Replace a running module by another version of it.

        The running microbatch ends first; the new version goes on from its commit.

        Args:
            module: The new version.
            remove: What may go, as for :meth:`deploy`.

        Raises:
            NotFoundError: When no module of that name runs here.
            DeclarationError: When the new version has a mistake; the running one goes on.
            DeployError: When it does not fit what is deployed, and the running one goes on; or
                when it could not be started, as for :meth:`deploy`.
        """
        if module.name not in self.apps and module.name not in self.stopped:
            raise NotFoundError(
                f"no module {module.name!r} runs here",
                hint="deploy(module) starts one; running: " + (", ".join(self.apps) or "none"),
            )
        return self.deploy(module, remove=remove)

    def module(self, name: str) -> App | StoppedModule:
        """A module that runs here, or what stands for it while it does not.

        Raises:
            NotFoundError: When there is none of that name.
        """
        found: App | StoppedModule | None = self.stopped.get(name) or self.apps.get(name)
        if found is None:
            raise NotFoundError(
                f"no module {name!r} runs here",
                hint=f"running: {', '.join(sorted(self.apps)) or 'none'}",
            )
        return found

    def workers(self, name: str) -> Scaling | RestingCluster:
        """The workers of a module, and what runs where; also of one that does not run.

        So workers can be uncordoned before a module is started that would find none.

        Args:
            name: The module. When it does not run here, each change fences whoever runs it.

        Raises:
            NotFoundError: When no module of that name was ever deployed on the root.
        """
        if name in self.stopped or name in self.apps:
            return self.module(name).cluster
        latest = Revisions(LocalStore(self.root), name).latest()
        if latest is None:
            raise NotFoundError(
                f"no module {name!r} was ever deployed here",
                hint="deploy(module) does so; names are those of the root's folders",
            )
        return self._resting(name, latest.info)

    def on_change(self, listener: Callable[[App | StoppedModule], None]) -> None:
        """Be told of every module that begins to run, or comes to a stop that nobody asked for."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Stop every module."""
        self._reviver.close()
        with self._deploying:
            for app in self.apps.values():
                app.close()
            self._forget()

    def kill(self) -> None:
        """End every module as if the process had died, for tests.

        What runs is cut off and nothing is finished; a cluster on the same root goes on from the
        last commit. A task in the middle of a Python function ends after it.
        """
        for app in self.apps.values():
            app.kill()
        self._forget()

    def __enter__(self) -> Self:
        """The cluster itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    # The phases of a deployment -------------------------------------------------------------------

    def _prepare(self, module: Module, remove: Collection[str]) -> Version:
        """Everything that can refuse a version, before anything stops."""
        standing = self._stood(module.name)
        before: Deployment | None
        if standing is not None:
            before, info = standing.deployment, standing.info
        else:
            store = LocalStore(self.root)
            latest = Revisions(store, module.name).latest()
            before = latest_deployment(store, module.name)
            info = ClusterInfo() if latest is None else latest.info
        return checked_version(
            module,
            remove,
            engine=self._engine,
            places=self.places,
            before=before,
            info=info,
            present=self.present(),
        )

    def _start(self, version: Version, standing: Standing | None) -> App:
        """Let a version take over and run."""
        lives = Lives(self.places, self._engine, self._observer, self._drive, self.present)
        app, stands = lives.begin(version, standing)
        self._standing[app.name] = stands
        self.apps[app.name] = app
        self.stopped.pop(app.name, None)
        return app

    def _bring_back(self, standing: Standing, error: BaseException) -> BaseException:
        """Start the version before again; what to raise, which says how that went."""
        name = standing.version.module.name
        if name in self.apps:
            _quietly_killed(self.apps[name])
        if isinstance(error, FencedError):  # it runs elsewhere, and shall go on there
            self._stop(standing, error)
            return error
        try:
            self._tell(self._start(standing.version, standing))
        except FencedError as fenced:
            self._stop(standing, fenced)
            return fenced
        except Exception as second:  # noqa: BLE001 - it is told, and tried again
            self._stop(standing, nothing_runs(name, second))
            told: BaseException = nothing_runs(name, second, error)
        else:
            told = not_started(name, error)
        return told if isinstance(error, Exception) else error

    # Modules that do not run ----------------------------------------------------------------------

    def _stop(self, standing: Standing, failure: AtollError) -> None:
        """Let it be said that a module does not run, and start it as soon as that can be."""
        name = standing.version.module.name
        known = self.stopped.get(name)
        cluster = self._resting(name, standing.info) if known is None else known.cluster
        stopped = StoppedModule(name, standing, cluster, failure)
        self.stopped[name] = stopped
        self.apps.pop(name, None)
        _log.error("the module does not run", module=name, error=str(failure))
        self._tell(stopped)
        if self._drive.watched and stopped.fenced is None:
            self._reviver.begin()

    def _revive_all(self) -> bool:
        """Start each again that does not run; whether one is left that may run later."""
        with self._deploying:
            for name, stopped in list(self.stopped.items()):
                standing = self._stood(name)
                if self._reviver.closed or stopped.fenced is not None or standing is None:
                    continue
                try:
                    app = self._start(standing.version, standing)
                except FencedError as error:
                    self._stop(standing, error)
                except Exception as error:  # noqa: BLE001 - the next try may succeed
                    stopped.failure = nothing_runs(name, error)
                else:
                    _log.warning("the module runs again", module=name)
                    self._tell(app)
            return any(each.fenced is None for each in self.stopped.values())

    def _stood(self, name: str) -> Standing | None:
        """What stands of a module that runs here or should; None when neither."""
        cluster: Scaling | RestingCluster
        if name in self.stopped:
            standing, cluster = self.stopped[name].standing, self.stopped[name].cluster
        elif name in self.apps and name in self._standing:
            standing, cluster = self._standing[name], self.apps[name].cluster
        else:
            return None
        return replace(standing, info=cluster.info())

    def _resting(self, name: str, info: ClusterInfo) -> RestingCluster:
        folder = state_folder(self.places.local, name)
        return RestingCluster(
            LocalStore(self.root),
            name,
            info,
            lock=self._deploying,
            running=lambda: self.apps[name].cluster if name in self.apps else None,
            sizes=lambda info: vnode_bytes(info, folder, {}),
            now_ms=self._drive.now_ms,
        )

    def _forget(self) -> None:
        self.apps.clear()
        self.stopped.clear()
        self._standing.clear()

    def _tell(self, module: App | StoppedModule) -> None:
        for listener in self._listeners:
            listener(module)


def _quietly_killed(app: App) -> None:
    """End what is left of an app whose end has failed."""
    try:
        app.kill()
    except Exception as error:  # noqa: BLE001 - what went wrong before is what is told
        _log.warning("a version did not end well", module=app.name, error=str(error))
