"""Runs modules: deploys them, keeps them running, and tells them who is in the cluster.

What kinds of clusters there are differs in two things only: the engine that runs the attempts,
and how it is known which workers there are.

A deployment has four phases. *Prepare* checks everything that can refuse, while the version before
runs (:mod:`atoll.cluster.deploy.versions`). *Stop*, *switch* and *start* let the new one take its
place (:mod:`atoll.cluster.deploy.deploying`). When one of the last three fails, the version before
is started again: in the end a module runs, or says why it does not and is started as soon as it
can be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from atoll.cluster.app import App
from atoll.cluster.clockwork import Drive
from atoll.cluster.deploy.changes import DeployPlan
from atoll.cluster.deploy.deploying import Deploying
from atoll.cluster.deploy.lives import Lives
from atoll.cluster.deploy.removing import delete_module
from atoll.cluster.deploy.stopped import StoppedModule
from atoll.cluster.deploy.versions import Version, checked_version
from atoll.cluster.scaling.follower import Follower
from atoll.cluster.scaling.resting import RestingCluster
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.errors import NotFoundError, UsageError
from atoll.placement.deploying import WorkerReport
from atoll.placement.registry import view, with_view, without
from atoll.storage.roots import open_store
from atoll.views.deployment import latest_deployment

if TYPE_CHECKING:
    from collections.abc import Collection

    from atoll.cluster.engines import Engine
    from atoll.cluster.scaling.scaling import Scaling
    from atoll.microbatch.stepping import Observer
    from atoll.module import Module
    from atoll.storage.folders import RootFolders
    from atoll.views.deployment import Deployment


class Cluster(ABC):
    """What all clusters do alike.

    Args:
        folders: Where everything lies.
        engine: What runs the attempts.
        observer: Called after each numbered step of every microbatch, for tests and tools.
        drive: What moves the topologies; threads when None.

    Attributes:
        apps: The modules that run, by name.
        stopped: The modules that should run and do not, by name.
    """

    def __init__(
        self,
        folders: RootFolders,
        engine: Engine,
        observer: Observer | None,
        drive: Drive | None = None,
    ) -> None:
        """Nothing runs yet."""
        self.folders = folders
        self.root = folders.root
        self._engine = engine
        self._observer = observer
        self._drive = drive or Drive()
        self._revisions = Revisions(open_store(folders.root))
        self._deploying = Deploying(self._lives)
        self.whole = self._deploying.over_modules(self._revisions, self.set_units)
        """The workers, and what runs where, of all modules of the root."""
        self._follower = Follower(self.whole)
        self.apps: dict[str, App] = self._deploying.apps
        self.stopped: dict[str, StoppedModule] = self._deploying.stopped

    @abstractmethod
    def present(self) -> list[WorkerReport]:
        """The workers that there are now."""

    def set_units(self, units: int) -> None:
        """Give this process so many parallel units from now on; only one without a cluster can.

        Raises:
            UsageError: When it cannot.
        """
        raise UsageError(
            f"{units} units cannot be set here: the workers of this cluster say theirs",
            hint="start another worker of the Spark cluster; it is met as its executors come",
        )

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
        with self._deploying.lock:
            version = self._prepare(module, remove)
            version.plan.check()
            app = self._deploying.replace(version)
        if self._drive.watched:
            self._follower.begin()
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
        registry = self._revisions.of(name)
        if name not in registry.parts:
            raise NotFoundError(
                f"no module {name!r} was ever deployed here",
                hint="deploy(module) does so; names are those of the root's folders",
            )
        return self._deploying.at_rest(name, view(registry, name))

    def on_change(self, listener: Callable[[App | StoppedModule], None]) -> None:
        """Be told of every module that begins to run, or comes to a stop that nobody asked for."""
        self._deploying.listeners.append(listener)

    def remove(self, name: str) -> None:
        """End a module, if it runs, and delete all that it kept on the root.

        Args:
            name: The module. One that is not there is no error: a removal may be done again.
        """
        self._deploying.remove(name)
        now_ms = self._drive.now_ms()
        self._revisions.change(
            lambda registry: without(registry, name),
            lambda registry: Revision(registry, name, 0, now_ms, "removed"),
        )
        delete_module(self.folders, name)

    def close(self) -> None:
        """Stop every module."""
        self._follower.close()
        self._deploying.close()

    def kill(self) -> None:
        """End every module as if the process had died, for tests.

        What runs is cut off and nothing is finished; a cluster on the same root goes on from the
        last commit. A task in the middle of a Python function ends after it.
        """
        self._follower.close()
        self._deploying.kill()

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

    # Inside ---------------------------------------------------------------------------------------

    def _prepare(self, module: Module, remove: Collection[str]) -> Version:
        """Everything that can refuse a version, before anything stops."""
        last = self._deploying.last_run(module.name)
        registry = self._revisions.of(module.name)
        if last is not None:
            before: Deployment | None = last.deployment
            registry = with_view(registry, module.name, last.info)
        else:
            before = latest_deployment(open_store(self.root), module.name)
        return checked_version(
            module,
            remove,
            engine=self._engine,
            folders=self.folders,
            before=before,
            registry=registry,
            present=self.present(),
        )

    def _lives(self) -> Lives:
        parts = (self._engine, self._observer, self._drive, self.present, self._revisions)
        return Lives(self.folders, *parts)
