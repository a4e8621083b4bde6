"""Reading the state of deployed modules from any process of the host.

Needs no Spark, no server and not the module's code: the deployment object says what the state is,
the commit objects say which version of it is the last. What a running topology has not committed
is never seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, overload

from atoll.ddl import parse_ddl
from atoll.depot.outside import OutsideDepot
from atoll.depot.receipt import Awaited, Receipt
from atoll.depot.tail import Tailing
from atoll.errors import NotFoundError
from atoll.microbatch.commits.history import CommitHistory, commit_objects, latest_commit
from atoll.microbatch.commits.objects import Commit
from atoll.microbatch.commits.timelines import timeline_objects
from atoll.path import Path as StatePath
from atoll.storage.folders import RootFolders, depot_folder
from atoll.storage.glances import look_seconds
from atoll.storage.places import Place, place_of
from atoll.storage.roots import RootStore, open_store
from atoll.topology.declared import DepotDeclaration, PStateDeclaration, V
from atoll.views.awaiting import ConnectedWaiting
from atoll.views.deployment import Deployment, latest_deployment
from atoll.views.filling import when_joined
from atoll.views.names import not_found, part_name
from atoll.views.readable import ReadablePState, check_public
from atoll.views.subscription import PAGE_ENTRIES, After, Subscription, position_after
from atoll.views.typed import TypedPState, typed

__all__ = ["Connected", "connect"]


def connect(root: Place | str, module: str) -> Connected:
    """The deployed module of that name under a root folder, for reading.

    Raises:
        NotFoundError: When no such module was deployed there.
    """
    store = open_store(place_of(root))
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

    def __init__(self, store: RootStore, deployment: Deployment) -> None:
        """Made by :func:`connect`."""
        self.store = store
        self.deployment = deployment
        self.name = deployment.module
        self._followers: dict[str, _Follower] = {}
        self._waiting = ConnectedWaiting(
            store, deployment, lambda topology: self._follower(topology).history().commit
        )

    def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        topologies = self.deployment.topologies.values()
        return sorted(
            name
            for topology in topologies
            for name, spec in topology.pstates.items()
            if not spec.get("private")
        )

    @overload
    def pstate(self, name: PStateDeclaration[V]) -> TypedPState[V]: ...
    @overload
    def pstate(self, name: str) -> ReadablePState: ...
    def pstate(self, name: str | PStateDeclaration[Any]) -> ReadablePState | TypedPState[Any]:
        """A PState, to read as of the last commit.

        Args:
            name: Its name; or what declared it, to get values of the declared types.

        Raises:
            NotFoundError: When the module has none of that name, or it is private.
            UsageError: When it was declared by another module, or with another schema.
        """
        if isinstance(name, PStateDeclaration):
            return typed(self.pstate(name.name), name, self.name)
        topology, spec = self.deployment.topology_of(name)
        history: Callable[[], CommitHistory] = self._follower(topology).history
        filling = self.deployment.topologies[topology].filling
        if filling is not None and name in filling.stored:
            history = when_joined(name, history)
        local = RootFolders.of(self.store).local
        wait = partial(self._waiting.wait, topology=topology)
        return check_public(ReadablePState(spec, self.store, local, history, wait=wait))

    def depots(self) -> list[str]:
        """The names of the depots."""
        return sorted(self.deployment.depots)

    def depot(self, name: str | DepotDeclaration[Any]) -> OutsideDepot:
        """A depot, to read with ``tail(...)``: what is acknowledged, whoever appends.

        Args:
            name: Its name; or what declared it, to get objects of the declared class.

        Raises:
            NotFoundError: When the module has none of that name.
            UsageError: When it was declared by another module.
        """
        row_class = None if isinstance(name, str) else name.row_class
        called = part_name(name, self.name)
        if called not in self.deployment.depots:
            raise not_found("depot", called, self.deployment.depots, self.name)
        deployed = self.deployment.depots[called]
        return OutsideDepot(
            depot_folder(self.store.root, self.name, called),
            parse_ddl(deployed.ddl),
            deployed.partitions,
            deployed.migrations,
            Tailing(self.name, called, row_class),
        )

    def wait(
        self, *receipts: Receipt | Awaited | str, timeout_seconds: float = 60.0
    ) -> dict[str, int]:
        """Wait until readers here see all that comes of what was appended, as ``app.wait`` does.

        Raises:
            ReceiptError: When one is no receipt or token, or of a depot that is not read here.
            WaitTimeoutError: When it takes longer: why can be seen where the module runs only.
        """
        return self._waiting.wait(receipts, timeout_seconds)

    def subscribe(
        self,
        pstate: str | PStateDeclaration[Any],
        path: StatePath | None = None,
        *,
        after: After | None = None,
        page_entries: int = PAGE_ENTRIES,
        timeout_seconds: float = 60.0,
    ) -> Subscription:
        """The changes of one value of a PState, commit by commit, as ``app.subscribe`` gives them.

        Raises:
            NotFoundError: When there is no PState of that name, or it is private.
            PathError: When the path does not fit the schema.
            UsageError: When ``after`` is no position.
        """
        readable = self.pstate(part_name(pstate, self.name))
        readable.history()  # which says so when it is being filled
        position = position_after(readable, after, timeout_seconds)
        watch = _Watch(self._follower(readable.spec.topology))
        return Subscription(readable, path, watch, after=position, page_entries=page_entries)

    def _follower(self, topology: str) -> _Follower:
        if topology not in self._followers:
            self._followers[topology] = _Follower(self.store, self.name, topology)
        return self._followers[topology]


class _Follower:
    """Follows a topology's commits and rollbacks: three system calls per read while none is new.

    The next commit may have come and gone since the last read; then so has the one known.
    """

    def __init__(self, store: RootStore, module: str, topology: str) -> None:
        self.store = store
        self.module = module
        self.topology = topology
        self._follow(latest_commit(store, module, topology))

    def history(self) -> CommitHistory:
        """The log as of the last commit; the same object while there is no new one."""
        newer = self.store.exists(self._next) or self.store.exists(self._next_timeline)
        if newer or not self.store.exists(self._same):
            known = self._known.commit_id
            self._follow(latest_commit(self.store, self.module, self.topology, known))
        return self._known

    def _follow(self, commit: Commit) -> None:
        self._known = CommitHistory(self.store, self.module, self.topology, commit)
        commits = commit_objects(self.store, self.module, self.topology, commit.timeline)
        self._next = commits.name(commit.id + 1)
        where = self._known.timelines.of(commit.id)
        made = commit_objects(self.store, self.module, self.topology, where)
        self._same = made.name(commit.id)
        timelines = timeline_objects(self.store, self.module, self.topology)
        self._next_timeline = timelines.name(commit.timeline + 1)


class _Watch:
    """Looks for commits of another process while somebody waits for one."""

    def __init__(self, follower: _Follower) -> None:
        self.head = follower.history
        self._seconds = look_seconds(follower.store, _LOOK_SECONDS)
        self._woken = threading.Event()

    def wait(
        self, known: CommitHistory, over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.head() is known and not over():
            left = self._seconds if until is None else min(self._seconds, until - time.monotonic())
            if left <= 0:
                return
            self._woken.wait(left)
            self._woken.clear()

    def wake(self) -> None:
        self._woken.set()
