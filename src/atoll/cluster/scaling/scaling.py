"""The cluster as a module sees it while it runs: who is in it, what runs where, what changes.

Changes are made one after the other. A change first goes to the topologies that it moves, each of
which takes it between two microbatches; when the first microbatch of each has committed there,
the next revision of the cluster is made and stands. Placement never changes a result, so a crash
between the two costs nothing: the old revision stands.

What somebody asks for takes effect as a whole: when one topology fails, all go back to where they
were, and nothing has changed. That workers came or are gone is not asked but so. Then each
topology follows for itself: one that ran on a lost worker moves in any case, and one that fails
on units that it could have more stays behind until it runs again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from atoll.cluster.description import described_cluster
from atoll.cluster.scaling.placed import Placeable, PlacedTopologies, with_fragments
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.cluster.scaling.sizes import Sizes
from atoll.errors import AtollError, FencedError, NotFoundError, RescheduleError
from atoll.logs import get_logger
from atoll.microbatch.epochs import Epoch
from atoll.placement.deploying import WorkerReport, policy_plan
from atoll.placement.info import ClusterInfo
from atoll.placement.policies.policy import parse_policy
from atoll.placement.policies.shortage import shortage
from atoll.placement.registry import (
    Registry,
    cordon,
    full_name,
    meet,
    remove,
    uncordon,
    view,
    with_view,
)
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import ReschedulePlan, plan

_log = get_logger("atoll.cluster")


class Scaling:
    """The cluster as one module sees it that runs in this process. Safe from any thread.

    Args:
        revisions: Of the root's cluster.
        module: The module.
        epoch: The life of the coordinator that runs the module.
        topologies: The module's running topologies, by name.
        sizes: For each root fragment of an info the bytes of its vnodes.
        now_ms: The wall clock.
        info: What is to hold of the module, where the root may say something else: what is decided
            next is made from it.
    """

    def __init__(  # noqa: PLR0913  # injected once
        self,
        revisions: Revisions,
        module: str,
        epoch: Epoch,
        topologies: Mapping[str, Placeable],
        sizes: Callable[[ClusterInfo], Sizes],
        now_ms: Callable[[], int],
        info: ClusterInfo | None = None,
    ) -> None:
        """Nothing changes yet."""
        self.module = module
        self._revisions = revisions
        self._epoch = epoch
        self._sizes = sizes
        self._now_ms = now_ms
        self._meant = info
        placed = info if info is not None else view(revisions.known(), module)
        self._placed = PlacedTopologies(topologies, placed)
        self._changing = threading.Lock()
        self._behind: set[str] = set()
        self._closed = False

    def close(self) -> None:
        """Take no further change: the module is stopping."""
        self._closed = True

    def info(self) -> ClusterInfo:
        """The revision that stands, as this process last saw it."""
        return view(self._revisions.known(), self.module) if self._meant is None else self._meant

    def describe(self) -> dict[str, Any]:
        """Workers, fragments with their actors, and the fragment-by-unit matrix, JSON-able."""
        info = self.info()
        return described_cluster(info, self._sizes(info))

    def reschedule(
        self,
        changes: Mapping[int, UnitChange],
        *,
        revision: int,
        resolve: bool = False,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ReschedulePlan:
        """Change which units run some fragments: all of the changes, or none.

        Returns when the first microbatch on the new mapping has committed in every topology that
        it concerns; their policy is ``custom`` from then on.

        Args:
            changes: By fragment.
            revision: Of the info that the changes were made from.
            resolve: Whether a change of a fragment that follows another is meant for its root.
            dry_run: Only say what would be done.
            timeout_seconds: How long to wait for these microbatches.

        Raises:
            RescheduleError: When a check refuses it, or the first microbatch failed or took too
                long; the old mapping stands then.
            FencedError: When another life of the coordinator owns the module.
        """
        request = Request(dict(changes), revision, resolve)
        if dry_run:
            return self._reschedule_plan(self._registry(), request)
        with self._changing:
            before = self._registry()
            planned = self._reschedule_plan(before, request)
            if not planned.is_noop:
                self._change(before, planned.info, "reschedule", timeout_seconds)
            return msgspec.structs.replace(planned, info=self.info())

    def set_parallelism(
        self,
        topology: str,
        policy: str,
        *,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> ReschedulePlan:
        """Let a policy decide a topology's parallelism: ``adaptive``, ``4``, ``bounded(4)``, ...

        It is stored, and answers to workers that come and go. With fewer units than it asks for
        the topology gets those that there are, and the plan's ``shortage`` tells what is missing.

        Args:
            topology: Whose fragments the policy is for.
            policy: How many units they get of those that there are.
            dry_run: Only say what would be done.
            timeout_seconds: How long to wait for the first microbatch on the new mapping.

        Raises:
            UsageError: When there is no such policy.
            NotFoundError: When there is no such topology.
            RescheduleError: When the first microbatch failed or took too long; the old mapping
                stands.
            FencedError: When another life of the coordinator owns the module.
        """
        parsed = str(parse_policy(policy))
        if topology not in self._placed:
            known = ", ".join(self._placed.names) or "none"
            raise NotFoundError(f"there is no topology {topology!r}", hint=f"there are: {known}")
        if dry_run:
            return self._policy_plan(self._registry(), topology, parsed)
        with self._changing:
            self._refuse_closed()
            before = self._registry()
            planned = self._policy_plan(before, topology, parsed)
            if planned.info != view(before, self.module):
                self._change(before, planned.info, f"parallelism of {topology}", timeout_seconds)
            return msgspec.structs.replace(planned, info=self.info())

    def resize(self, topology: str, count: int, timeout_seconds: float = 60.0) -> ClusterInfo:
        """Run a topology whose policy is ``load`` on so many units, within the policy's bounds.

        Raises:
            RescheduleError: When the first microbatch failed or took too long; the old mapping
                stands.
            FencedError: When another life of the coordinator owns the module.
        """
        with self._changing:
            self._refuse_closed()
            before = self._registry()
            info = view(before, self.module)
            planned = policy_plan(info, self._sizes(info), {topology: count})
            if not planned.is_noop:
                self._change(before, planned.info, f"load of {topology}", timeout_seconds)
            return self.info()

    def cordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Give these workers no new actors, of any module; those that they have stay.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda registry: cordon(registry, workers), "cordon")

    def uncordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Let these workers get new actors again, of all modules.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda registry: uncordon(registry, workers), "uncordon")

    def remove(self, workers: Iterable[int]) -> ClusterInfo:
        """Forget workers that run nothing, of any module.

        Raises:
            NotFoundError: When one of them is unknown.
            RescheduleError: When actors run there; the context lists them.
        """
        return self._changed(lambda registry: remove(registry, workers), "remove")

    def meet(self, present: Sequence[WorkerReport], timeout_seconds: float = 60.0) -> ClusterInfo:
        """Take over who is there now: policies answer to workers that joined or are lost.

        Raises:
            FencedError: When another life of the coordinator owns the module.
        """
        return self._changed(
            lambda registry: meet(registry, self.module, present), "workers", timeout_seconds
        )

    def settle(self, timeout_seconds: float = 60.0) -> ClusterInfo:
        """Let topologies that could not follow a change of the workers do so, once they run.

        Raises:
            FencedError: When another life of the coordinator owns the module.
        """
        if any(map(self._placed.undisturbed, self._behind)):
            with self._changing:
                self._follow(_unchanged, "workers", timeout_seconds)
        return self.info()

    def follow(self, timeout_seconds: float = 60.0) -> None:
        """Take over what others changed of the root's cluster, unless a change is under way.

        Raises:
            FencedError: When another life of the coordinator owns the module.
        """
        if self._closed or not self._changing.acquire(blocking=False):
            return
        try:
            self._follow(_unchanged, "workers", timeout_seconds)
        finally:
            self._changing.release()

    # For changes over several modules -------------------------------------------------------------

    @contextlib.contextmanager
    def held(self, timeout_seconds: float = 60.0) -> Iterator[None]:
        """Keep every other change away.

        Raises:
            RescheduleError: When one is under way for so long, or the module is stopping.
        """
        if not self._changing.acquire(timeout=timeout_seconds):
            raise RescheduleError(
                f"another change of module {self.module!r} is under way",
                hint="try again when it has ended",
                problem="unavailable",
            )
        try:
            self._refuse_closed()
            yield
        finally:
            self._changing.release()

    def starting(self) -> list[str]:
        """The full names of the topologies that do not run yet."""
        return [full_name(self.module, name) for name in self._placed.starting]

    def sizes(self, info: ClusterInfo) -> Sizes:
        """For each root fragment of this module in an info the bytes of its vnodes."""
        return self._sizes(info)

    def try_on(self, after: ClusterInfo, timeout_seconds: float) -> dict[str, AtollError]:
        """Let topologies run where this view has them; all, or none. Only while held.

        Returns:
            Those that stay where they were, and why; all others are there again then.
        """
        return self._placed.try_on(after, timeout_seconds)

    def leave(self, tried: ClusterInfo, timeout_seconds: float) -> None:
        """Go back from where :meth:`try_on` went. Only while held."""
        self._placed.go_back(self._placed.moving(tried), timeout_seconds)

    def took(self, stood: Registry) -> None:
        """What was tried stands now. Only while held."""
        self._placed.info = view(stood, self.module)

    def check(self) -> None:
        """Hold that this process runs the module.

        Raises:
            FencedError: When another life of the coordinator owns it.
        """
        self._epoch.check()

    # Inside ---------------------------------------------------------------------------------------

    def _registry(self) -> Registry:
        """What stands; with what is meant to, as long as it does not."""
        registry = self._revisions.latest()
        if self._meant is None:
            return registry
        return with_view(registry, self.module, self._meant)

    def _changed(
        self, change: Callable[[Registry], Registry], why: str, timeout_seconds: float = 60.0
    ) -> ClusterInfo:
        with self._changing:
            self._refuse_closed()
            self._follow(change, why, timeout_seconds)
            return self.info()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RescheduleError(
                "the module is stopping", hint="try again when it runs", problem="unavailable"
            )

    def _reschedule_plan(self, registry: Registry, request: Request) -> ReschedulePlan:
        info = view(registry, self.module)
        return plan(
            info,
            request,
            self._sizes(info),
            unavailable="the module is stopping" if self._closed else None,
            starting=self._placed.starting,
        )

    def _policy_plan(self, registry: Registry, topology: str, policy: str) -> ReschedulePlan:
        info = view(registry, self.module)
        wanted = msgspec.structs.replace(info, policies={**info.policies, topology: policy})
        planned = policy_plan(wanted, self._sizes(wanted))
        return msgspec.structs.replace(planned, shortage=shortage(planned.info, topology))

    def _change(
        self, before: Registry, wanted: ClusterInfo, why: str, timeout_seconds: float
    ) -> None:
        """Move all topologies or none, then let the next revision stand; the lock is held."""
        after = msgspec.structs.replace(wanted, revision=before.revision + 1)
        moving = self._placed.moving(after)
        refused = self.try_on(after, timeout_seconds)
        if refused:
            raise not_taken(refused)
        wished = with_view(before, self.module, after)
        wished = msgspec.structs.replace(wished, revision=after.revision)  # though it be the same
        if not self._stand(before, wished, why, moving):
            self._placed.go_back(moving, timeout_seconds)
            raise overtaken()

    def _follow(
        self, change: Callable[[Registry], Registry], why: str, timeout_seconds: float
    ) -> None:
        """Let each topology go where its policy wants it, then let the next revision stand.

        The lock is held. Once more when somebody else has changed the cluster meanwhile.
        """
        stood = False
        while not stood:
            before = self._registry()
            changed = change(before)
            wanted = view(changed, self.module)
            wanted = policy_plan(wanted, self._sizes(wanted)).info
            after = msgspec.structs.replace(wanted, revision=before.revision + 1)
            moving = self._placed.moving(after)
            forced = [name for name in moving if self._placed.runs_on_lost(name, after)]
            free = [name for name in moving if name not in forced]
            refused = self._placed.place(forced, after, timeout_seconds, trial=False)
            behind = self._placed.place(free, after, timeout_seconds)
            if self._closed:
                return
            for name, error in {**refused, **behind}.items():
                if isinstance(error, FencedError):
                    raise error
                _log.warning("topology did not follow", topology=name, why=why, error=str(error))
            self._behind = set(behind)
            after = with_fragments(after, self._placed.info, self._behind)
            moved = [name for name in moving if name not in behind]
            stood = self._stand(before, with_view(changed, self.module, after), why, moved)

    def _stand(self, before: Registry, after: Registry, why: str, moved: Sequence[str]) -> bool:
        """Make the next revision, if anything is new; False when somebody changed the same."""
        stood: Registry | None = before
        if after != before:
            self._epoch.check()
            made = Revision(after, self.module, self._epoch.number, self._now_ms(), why)
            if self._meant is not None:
                if self._registry() != before:
                    return False
                before = self._revisions.latest()
            stood = self._revisions.stand(before, made, [self.module])
        if stood is None:
            return False
        if stood != before:
            self._meant = None
            _log.info("cluster changed", revision=stood.revision, why=why, moved=list(moved))
        self._placed.info = view(stood, self.module) if self._meant is None else self._meant
        return True


def not_taken(refused: Mapping[str, AtollError]) -> AtollError:
    """What to raise when topologies stay where they were."""
    name, error = min(refused.items())
    if isinstance(error, FencedError):
        return error
    told = RescheduleError(
        f"topology {name!r} stays where it was: {error.message}",
        hint=error.hint,
        **{**error.context, "problem": "not taken"},
    )
    told.__cause__ = error
    return told


def overtaken() -> RescheduleError:
    """What to raise when somebody else changed the same meanwhile."""
    return RescheduleError(
        "the cluster was changed by another process meanwhile",
        hint="look at the cluster again, then ask with its revision",
        problem="stale revision",
    )


def _unchanged(registry: Registry) -> Registry:
    return registry
