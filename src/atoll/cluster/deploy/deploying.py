"""The modules of a cluster as they are: running, or stopped although they should run.

Here a running version is replaced by another one, by the last three phases of a deployment: *stop*
the one that runs, *switch* and *start* (:mod:`atoll.cluster.deploy.lives`). When one of them fails,
the version before is started again; when that fails too, it is said that nothing runs, and tried
again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from atoll.cluster.app import App
from atoll.cluster.deploy.failures import not_started, nothing_runs
from atoll.cluster.deploy.last_run import LastRun
from atoll.cluster.deploy.lives import Lives
from atoll.cluster.deploy.stopped import StoppedModule
from atoll.cluster.deploy.versions import Version
from atoll.cluster.scaling.over_modules import RootCluster
from atoll.cluster.scaling.resting import RestingCluster
from atoll.cluster.scaling.revisions import Revisions
from atoll.cluster.scaling.scaling import Scaling
from atoll.cluster.scaling.sizes import vnode_bytes
from atoll.cluster.upkeep.reviving import Reviver
from atoll.engine.stores import state_folder
from atoll.errors import AtollError, FencedError
from atoll.logs import get_logger
from atoll.placement.info import ClusterInfo
from atoll.pstate.store.environment import shared_environments
from atoll.storage.roots import open_store

_log = get_logger("atoll.cluster")


class Deploying:
    """What stands for each module, and how that changes.

    Args:
        lives: What begins lives of modules.

    Attributes:
        apps: The modules that run, by name.
        stopped: The modules that should run and do not, by name.
        lock: Held while a module is replaced or started again.
        listeners: Called with each module that begins to run, or has stopped by a failure.
        reviver: Tries to start again what has stopped.
    """

    def __init__(self, lives: Callable[[], Lives]) -> None:
        self.apps: dict[str, App] = {}
        self.stopped: dict[str, StoppedModule] = {}
        self._gone: dict[str, App] = {}
        self.lock = threading.RLock()
        self.listeners: list[Callable[[App | StoppedModule], None]] = []
        self.reviver = Reviver(self._revive)
        self._lives = lives
        self._last_runs: dict[str, LastRun] = {}

    def last_run(self, name: str) -> LastRun | None:
        """What stands of a module that runs here, or should; None when neither."""
        if name in self.stopped:
            stopped = self.stopped[name]
            known = stopped.fenced is None
            return replace(stopped.last, info=stopped.cluster.info()) if known else None
        if name in self.apps and self.apps[name].fenced is None:
            return replace(self._last_runs[name], info=self.apps[name].cluster.info())
        return None

    def replace(self, version: Version) -> App:
        """Let a checked version run instead of the one that does, or as the first one.

        Raises:
            DeployError: When it could not be started; it says what runs then.
            FencedError: When another process runs the module by now.
            AtollError: Why a first version could not be started.
        """
        name = version.module.name
        running, last = self.apps.get(name), self.last_run(name)
        if running is not None and last is not None:
            running.epoch.check()
            running.prepare_update(version.bound)
        try:
            if running is not None:
                running.close()
                last = self.last_run(name)  # workers may have come until then
            app = self._start(version, last)
        except BaseException as error:
            if last is None:
                raise
            told = self._bring_back(last, error)
            if told is error:
                raise
            raise told from error
        self._tell(app)
        return app

    def remove(self, name: str) -> None:
        """End a module for good, if it runs."""
        with self.lock:
            app = self.apps.pop(name, None)
            self.stopped.pop(name, None)
            self._gone.pop(name, None)
            self._last_runs.pop(name, None)
            if app is not None:
                app.close()

    def at_rest(self, name: str, info: ClusterInfo, since: int | None = None) -> RestingCluster:
        """The workers of a module that does not run; ``since`` when it last ran here."""
        lives = self._lives()
        folder = self._folder(name)
        return RestingCluster(
            open_store(lives.folders.root),
            lives.revisions,
            name,
            info,
            since,
            lock=self.lock,
            running=lambda: self._cluster_of(name),
            sizes=lambda info: vnode_bytes(info, folder, {}),
            now_ms=lives.drive.now_ms,
        )

    def over_modules(self, revisions: Revisions, units: Callable[[int], None]) -> RootCluster:
        """The cluster of the root, over all its modules."""
        return RootCluster(
            revisions,
            lambda: {n: app.cluster for n, app in [*self.apps.items()] if app.fenced is None},
            lambda: {n: each.cluster for n, each in [*self.stopped.items()] if each.fenced is None},
            lambda name, info: vnode_bytes(info, self._folder(name), {}),
            self._lives().drive.now_ms,
            units,
        )

    def close(self) -> None:
        """Stop every module, whatever one of them raises; it is raised in the end."""
        self.reviver.close()
        with self.lock, ExitStack() as ending:
            for name in self.apps:
                ending.callback(shared_environments().close, self._folder(name))
            self._end(App.close)

    def kill(self) -> None:
        """End every module as if the process had died; what one raises, as for :meth:`close`."""
        self.reviver.close()
        self._end(App.kill)

    # Inside ---------------------------------------------------------------------------------------

    def _start(self, version: Version, last: LastRun | None) -> App:
        """Switch and start."""
        app, stands = self._lives().begin(version, last)
        self._last_runs[app.name] = stands
        before = self.apps.get(app.name) or self._gone.pop(app.name, None)
        self.apps[app.name] = app
        if before is not None:
            before.replaced_by(app)
        self.stopped.pop(app.name, None)
        return app

    def _bring_back(self, last: LastRun, error: BaseException) -> BaseException:
        """Start the version before again; what to raise, which says how that went."""
        name = last.version.module.name
        if name in self.apps:
            _quietly_killed(self.apps[name])
        if isinstance(error, FencedError):  # it runs elsewhere, and shall go on there
            self._stop(last, error)
            return error
        try:
            app = self._start(last.version, last)
        except FencedError as fenced:
            self._stop(last, fenced)
            return fenced
        except BaseException as second:
            self._stop(last, nothing_runs(name, second))
            if not isinstance(second, Exception):
                raise
            told = nothing_runs(name, second, error)
        else:
            told = not_started(name, error)
            self._tell(app)
        return told if isinstance(error, Exception) else error

    def _stop(self, last: LastRun, failure: AtollError) -> None:
        """Let it be said that a module does not run, and start it as soon as that can be."""
        name = last.version.module.name
        known = self.stopped.get(name)
        cluster = known.cluster if known else self.at_rest(name, last.info, last.epoch)
        stopped = StoppedModule(name, last, cluster, failure)
        self.stopped[name] = stopped
        if name in self.apps:
            self._gone[name] = self.apps.pop(name)
        _log.error("the module does not run", module=name, error=str(failure))
        self._tell(stopped)
        if self._lives().drive.watched and stopped.fenced is None:
            self.reviver.begin()

    def _revive(self) -> bool:
        """Start each again that does not run; whether one is left that may run later."""
        with self.lock:
            for name, stopped in list(self.stopped.items()):
                last = self.last_run(name)
                if self.reviver.closed or last is None:
                    continue
                try:
                    app = self._start(last.version, last)
                except FencedError as error:
                    self._stop(last, error)
                except Exception as error:  # noqa: BLE001 - the next try may succeed
                    stopped.failure = nothing_runs(name, error)
                else:
                    _log.warning("the module runs again", module=name)
                    self._tell(app)
            return any(each.fenced is None for each in self.stopped.values())

    def _folder(self, name: str) -> Path:
        return state_folder(self._lives().folders.local, name)

    def _cluster_of(self, name: str) -> Scaling | None:
        return self.apps[name].cluster if name in self.apps else None

    def _end(self, end: Callable[[App], None]) -> None:
        with ExitStack() as ending:
            ending.callback(self._forget)
            for app in self.apps.values():
                ending.callback(end, app)

    def _forget(self) -> None:
        self.apps.clear()
        self.stopped.clear()
        self._last_runs.clear()

    def _tell(self, module: App | StoppedModule) -> None:
        for listener in self.listeners:
            listener(module)


def _quietly_killed(app: App) -> None:
    """End what is left of an app whose end has failed."""
    try:
        app.kill()
    except Exception as error:  # noqa: BLE001 - what went wrong before is what is told
        _log.warning("a version did not end well", module=app.name, error=str(error))
