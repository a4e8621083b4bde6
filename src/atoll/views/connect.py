"""Reading the state of deployed modules from any process of the host.

Needs no Spark, no server and not the module's code: the deployment object says what the state is,
the commit objects say which version of it is the last. What a running topology has not committed
is never seen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from atoll.errors import NotFoundError
from atoll.microbatch.commits.history import CommitHistory, commit_objects, latest_commit
from atoll.microbatch.commits.objects import Commit
from atoll.microbatch.commits.timelines import timeline_objects
from atoll.path import Path as StatePath
from atoll.storage.folders import RootFolders
from atoll.storage.local import LocalStore
from atoll.views.deployment import Deployment, latest_deployment
from atoll.views.readable import ReadablePState, check_public
from atoll.views.subscription import PAGE_ENTRIES, Subscription

__all__ = ["Connected", "connect"]


def connect(root: Path | str, module: str) -> Connected:
    """The deployed module of that name under a root folder, for reading.

    Raises:
        NotFoundError: When no such module was deployed there.
    """
    store = LocalStore(Path(root).expanduser().resolve())
    deployment = latest_deployment(store, module)
    if deployment is None:
        raise NotFoundError(
            f"no module {module!r} is deployed under this root",
            hint="deploy it first: atoll run FILE.py:module --root ROOT",
            root=str(root),
        )
    return Connected(store, deployment)


_LOOK_SECONDS = 0.05
"""Between two looks for a commit that another process made."""


class Connected:
    """A deployed module, read from outside its process."""

    def __init__(self, store: LocalStore, deployment: Deployment) -> None:
        """Made by :func:`connect`."""
        self.store = store
        self.deployment = deployment
        self.name = deployment.module
        self._followers: dict[str, _Follower] = {}

    def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        topologies = self.deployment.topologies.values()
        return sorted(
            name
            for topology in topologies
            for name, spec in topology.pstates.items()
            if not spec.get("private")
        )

    def pstate(self, name: str) -> ReadablePState:
        """A PState, to read as of the last commit.

        Raises:
            NotFoundError: When the module has none of that name, or it is private.
        """
        topology, spec = self.deployment.topology_of(name)
        follower = self._followers.get(topology)
        if follower is None:
            follower = self._followers[topology] = _Follower(self.store, self.name, topology)
        local = RootFolders.of(self.store).local
        return check_public(ReadablePState(spec, self.store, local, follower.history))

    def subscribe(
        self,
        pstate: str,
        path: StatePath | None = None,
        *,
        after: str | int | None = None,
        page_entries: int = PAGE_ENTRIES,
    ) -> Subscription:
        """The changes of one value of a PState, commit by commit, as ``app.subscribe`` gives them.

        Raises:
            NotFoundError: When there is no PState of that name, or it is private.
            PathError: When the path does not fit the schema.
            UsageError: When ``after`` is no position.
        """
        readable = self.pstate(pstate)
        watch = _Watch(self._followers[readable.spec.topology])
        return Subscription(readable, path, watch, after=after, page_entries=page_entries)


class _Follower:
    """Follows a topology's commits and rollbacks: three system calls per read while none is new.

    The next commit may have come and gone since the last read; then so has the one known.
    """

    def __init__(self, store: LocalStore, module: str, topology: str) -> None:
        self.store = store
        self.module = module
        self.topology = topology
        self._follow(latest_commit(store, module, topology))

    def history(self) -> CommitHistory:
        """The log as of the last commit; the same object while there is no new one."""
        newer = os.access(self._next, os.F_OK) or os.access(self._next_timeline, os.F_OK)
        if newer or not os.access(self._same, os.F_OK):
            known = self._known.commit_id
            self._follow(latest_commit(self.store, self.module, self.topology, known))
        return self._known

    def _follow(self, commit: Commit) -> None:
        self._known = CommitHistory(self.store, self.module, self.topology, commit)
        commits = commit_objects(self.store, self.module, self.topology, commit.timeline)
        self._next = str(self.store.path(commits.name(commit.id + 1)))
        where = self._known.timelines.of(commit.id)
        made = commit_objects(self.store, self.module, self.topology, where)
        self._same = str(self.store.path(made.name(commit.id)))
        timelines = timeline_objects(self.store, self.module, self.topology)
        self._next_timeline = str(self.store.path(timelines.name(commit.timeline + 1)))


class _Watch:
    """Looks for commits of another process while somebody waits for one."""

    def __init__(self, follower: _Follower) -> None:
        self.head = follower.history
        self._woken = threading.Event()

    def wait(
        self, known: CommitHistory, over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.head() is known and not over():
            left = _LOOK_SECONDS if until is None else min(_LOOK_SECONDS, until - time.monotonic())
            if left <= 0:
                return
            self._woken.wait(left)
            self._woken.clear()

    def wake(self) -> None:
        self._woken.set()
