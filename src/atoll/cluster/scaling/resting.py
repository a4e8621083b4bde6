"""The cluster of a module that does not run: workers and policies can be changed all the same.

Nothing moves by it, since nothing runs; what is decided holds from the next start on. Each change
is made by a life of its own, so that whoever might run the module elsewhere finds out. What changes
nothing, as a dry run or what is refused, begins no life: it must not take a module from anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from atoll.cluster.description import described_cluster
from atoll.cluster.scaling.rests import note_rest
from atoll.cluster.scaling.revisions import Revisions
from atoll.cluster.scaling.scaling import Scaling
from atoll.cluster.scaling.sizes import Sizes
from atoll.microbatch.epochs import Epoch, claim_epoch, refuse_other_processes
from atoll.placement.info import ClusterInfo
from atoll.placement.placement import Placement
from atoll.placement.registry import view
from atoll.placement.reschedule.change import UnitChange
from atoll.placement.reschedule.plan import ReschedulePlan
from atoll.storage.roots import RootStore

_T = TypeVar("_T")


class RestingCluster:
    """Workers and placement of a module that does not run. Safe from any thread.

    Args:
        store: The root.
        revisions: Of the root's cluster.
        module: The module.
        info: What is to run where, as the module sees it.
        since: The last life of this process's, after which no other process may have had one: it
            decides by now. None: what the root says holds, and whoever runs the module is fenced.
        lock: Held during each change: nobody starts the module meanwhile.
        running: The module's cluster when it runs by now; it is asked under the lock.
        sizes: For each root fragment of an info the bytes of its vnodes.
        now_ms: The wall clock.
    """

    def __init__(  # noqa: PLR0913  # injected once, by the cluster
        self,
        store: RootStore,
        revisions: Revisions,
        module: str,
        info: ClusterInfo,
        since: int | None,
        *,
        lock: threading.RLock,
        running: Callable[[], Scaling | None],
        sizes: Callable[[ClusterInfo], Sizes],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._revisions = revisions
        self._module = module
        self._info = info
        self._since = since
        self._lock = lock
        self._running = running
        self._sizes = sizes
        self._now_ms = now_ms

    def info(self) -> ClusterInfo:
        """What is to run where."""
        return self._info

    def took(self, info: ClusterInfo) -> None:
        """Know what a change over several modules came to, which stands by now."""
        self._info = info

    def describe(self) -> dict[str, Any]:
        """As of a module that runs."""
        return described_cluster(self._info, self._sizes(self._info))

    def cordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Give these workers no new actors.

        Raises:
            NotFoundError: When one of them is unknown.
            FencedError: When another process runs the module by now; so for all changes.
        """
        return self._changed(lambda cluster: cluster.cordon(workers))

    def uncordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Let these workers get new actors again.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda cluster: cluster.uncordon(workers))

    def remove(self, workers: Iterable[int]) -> ClusterInfo:
        """Forget workers that are to run nothing.

        Raises:
            NotFoundError: When one of them is unknown.
            RescheduleError: When actors are to run there.
        """
        return self._changed(lambda cluster: cluster.remove(workers))

    def set_parallelism(
        self,
        topology: str,
        policy: str,
        *,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ReschedulePlan:
        """Let a policy decide a topology's parallelism, from the next start on.

        Raises:
            UsageError: When there is no such policy.
            NotFoundError: When there is no such topology.
        """
        return self._changed(
            lambda cluster: cluster.set_parallelism(
                topology, policy, dry_run=dry_run, timeout_seconds=timeout_seconds
            )
        )

    def reschedule(
        self,
        changes: Mapping[int, UnitChange],
        *,
        revision: int,
        resolve: bool = False,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ReschedulePlan:
        """Change which units run some fragments, from the next start on.

        Raises:
            RescheduleError: When a check refuses it.
        """
        return self._changed(
            lambda cluster: cluster.reschedule(
                changes,
                revision=revision,
                resolve=resolve,
                dry_run=dry_run,
                timeout_seconds=timeout_seconds,
            )
        )

    def _changed(self, change: Callable[[Scaling], _T]) -> _T:
        with self._lock:
            running = self._running()
            if running is not None:
                return change(running)
            epoch = _WhenNeeded(self._store, self._module)
            cluster = self._at_rest(epoch)
            try:
                result = change(cluster)
            finally:
                epoch.end()
            self._info = cluster.info()
            return result

    def _at_rest(self, epoch: Epoch) -> Scaling:
        """The cluster as a new life has it, with topologies that take any placement at once."""
        if self._since is not None:
            refuse_other_processes(self._store, self._module, self._since)
        known = view(self._revisions.of(self._module), self._module)
        info = self._info if self._since is not None else known
        info = msgspec.structs.replace(info, revision=known.revision, workers=known.workers)
        topologies = {name: _AtRest() for name in {each.topology for each in info.fragments}}
        sizes, now_ms = self._sizes, self._now_ms
        return Scaling(self._revisions, self._module, epoch, topologies, sizes, now_ms, info=info)


class _WhenNeeded(Epoch):
    """An epoch that is claimed when it is first asked for: before something is changed."""

    def __init__(self, store: RootStore, module: str) -> None:
        self._claim = partial(claim_epoch, store, module)
        self._rest = partial(note_rest, store, module)
        self._claimed: Epoch | None = None

    def check(self) -> None:
        """Claim it, or hold that it is still the highest."""
        if self._claimed is None:
            self._claimed = self._claim()
            super().__init__(self._claimed.objects, self._claimed.number)
        super().check()

    def end(self) -> None:
        """Say that the life has ended, if it began."""
        if self._claimed is not None:
            self._rest(self._claimed)


class _AtRest:
    """A topology that does not run."""

    recovering = False
    undisturbed = False

    def place(self, to: Placement, timeout_seconds: float = 60.0, *, trial: bool = True) -> None:
        """Whatever it is, it holds from the next start on."""
