"""A module's cluster while it runs: who is in it, what runs where, and every change of that.

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

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec

from atoll.cluster.description import described_cluster
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.cluster.scaling.sizes import Sizes
from atoll.errors import AtollError, FencedError, NotFoundError, RescheduleError
from atoll.logs import get_logger
from atoll.microbatch.epochs import Epoch
from atoll.placement.deploying import WorkerReport, policy_plan, with_workers
from atoll.placement.info import ClusterInfo
from atoll.placement.placement import Placement, placement_of
from atoll.placement.policies.policy import parse_policy
from atoll.placement.policies.shortage import shortage
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import ReschedulePlan, plan
from atoll.placement.workers import cordon, remove, uncordon

_log = get_logger("atoll.cluster")


class Placeable(Protocol):
    """What is asked of a topology here."""

    @property
    def recovering(self) -> bool:
        """Whether it runs nothing yet."""

    @property
    def undisturbed(self) -> bool:
        """Whether it runs, and nothing has failed since its last commit."""

    def place(self, to: Placement, timeout_seconds: float = 60.0, *, trial: bool = True) -> None:
        """Run there from now on."""


class Scaling:
    """The cluster of one module. Safe from any thread.

    Args:
        revisions: Where its revisions are kept.
        epoch: The life of the coordinator that runs the module.
        info: The revision that stands.
        topologies: The module's running topologies, by name.
        sizes: For each root fragment of an info the bytes of its vnodes.
        now_ms: The wall clock.
    """

    def __init__(
        self,
        revisions: Revisions,
        epoch: Epoch,
        info: ClusterInfo,
        topologies: Mapping[str, Placeable],
        sizes: Callable[[ClusterInfo], Sizes],
        now_ms: Callable[[], int],
    ) -> None:
        self._revisions = revisions
        self._epoch = epoch
        self._info = info
        self._topologies = topologies
        self._sizes = sizes
        self._now_ms = now_ms
        self._changing = threading.Lock()
        self._behind: set[str] = set()
        self._closed = False

    def close(self) -> None:
        """Take no further change: the module is stopping."""
        self._closed = True

    def info(self) -> ClusterInfo:
        """The revision that stands."""
        return self._info

    def describe(self) -> dict[str, Any]:
        """Workers, fragments with their actors, and the fragment-by-unit matrix, JSON-able."""
        info = self._info
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
            return self._reschedule_plan(request)
        with self._changing:
            planned = self._reschedule_plan(request)
            if not planned.is_noop:
                self._change(planned.info, "reschedule", timeout_seconds)
            return msgspec.structs.replace(planned, info=self._info)

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
        if topology not in self._topologies:
            known = ", ".join(sorted(self._topologies)) or "none"
            raise NotFoundError(f"there is no topology {topology!r}", hint=f"there are: {known}")
        if dry_run:
            return self._policy_plan(topology, parsed)
        with self._changing:
            self._refuse_closed()
            planned = self._policy_plan(topology, parsed)
            if planned.info != self._info:
                self._change(planned.info, f"parallelism of {topology}", timeout_seconds)
            return msgspec.structs.replace(planned, info=self._info)

    def resize(self, topology: str, count: int, timeout_seconds: float = 60.0) -> ClusterInfo:
        """Run a topology whose policy is ``load`` on so many units, within the policy's bounds.

        Raises:
            RescheduleError: When the first microbatch failed or took too long; the old mapping
                stands.
            FencedError: When another life of the coordinator owns the module.
        """
        with self._changing:
            self._refuse_closed()
            info = self._info
            planned = policy_plan(info, self._sizes(info), {topology: count})
            if not planned.is_noop:
                self._change(planned.info, f"load of {topology}", timeout_seconds)
            return self._info

    def cordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Give these workers no new actors; those that they have stay.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda info: cordon(info, workers), "cordon")

    def uncordon(self, workers: Iterable[int]) -> ClusterInfo:
        """Let these workers get new actors again.

        Raises:
            NotFoundError: When one of them is unknown.
        """
        return self._changed(lambda info: uncordon(info, workers), "uncordon")

    def remove(self, workers: Iterable[int]) -> ClusterInfo:
        """Forget workers that run nothing.

        Raises:
            NotFoundError: When one of them is unknown.
            RescheduleError: When actors run there; the context lists them.
        """
        return self._changed(lambda info: remove(info, workers), "remove")

    def meet(self, present: Sequence[WorkerReport], timeout_seconds: float = 60.0) -> ClusterInfo:
        """Take over who is there now: policies answer to workers that joined or are lost.

        Raises:
            FencedError: When another life of the coordinator owns the module.
        """
        return self._changed(lambda info: with_workers(info, present), "workers", timeout_seconds)

    def settle(self, timeout_seconds: float = 60.0) -> ClusterInfo:
        """Let topologies that could not follow a change of the workers do so, once they run.

        Raises:
            FencedError: When another life of the coordinator owns the module.
        """
        if any(self._topologies[name].undisturbed for name in self._behind):
            with self._changing:
                self._follow(self._info, "workers", timeout_seconds)
        return self._info

    # Inside ---------------------------------------------------------------------------------------

    def _changed(
        self, change: Callable[[ClusterInfo], ClusterInfo], why: str, timeout_seconds: float = 60.0
    ) -> ClusterInfo:
        with self._changing:
            self._refuse_closed()
            wanted = change(self._info)
            if wanted is not self._info:
                self._follow(wanted, why, timeout_seconds)
            return self._info

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RescheduleError(
                "the module is stopping", hint="try again when it runs", problem="unavailable"
            )

    def _reschedule_plan(self, request: Request) -> ReschedulePlan:
        return plan(
            self._info,
            request,
            self._sizes(self._info),
            unavailable="the module is stopping" if self._closed else None,
            starting=[name for name, each in self._topologies.items() if each.recovering],
        )

    def _policy_plan(self, topology: str, policy: str) -> ReschedulePlan:
        policies = {**self._info.policies, topology: policy}
        wanted = msgspec.structs.replace(self._info, policies=policies)
        planned = policy_plan(wanted, self._sizes(wanted))
        return msgspec.structs.replace(planned, shortage=shortage(planned.info, topology))

    def _change(self, wanted: ClusterInfo, why: str, timeout_seconds: float) -> None:
        """Move all topologies or none, then let the next revision stand; the lock is held."""
        before = self._info
        after = msgspec.structs.replace(wanted, revision=before.revision + 1)
        moving = self._moving(after)
        refused = self._place(moving, after, timeout_seconds)
        if refused:
            moved = [name for name in moving if name not in refused]
            self._place(moved, before, timeout_seconds, trial=False)
            name, error = min(refused.items())
            if isinstance(error, FencedError):
                raise error
            raise RescheduleError(
                f"topology {name!r} stays where it was: {error.message}",
                hint=error.hint,
                **{**error.context, "problem": "not taken"},
            ) from error
        self._stand(after, why, moving)

    def _follow(self, wanted: ClusterInfo, why: str, timeout_seconds: float) -> None:
        """Let each topology go where its policy wants it, then let the next revision stand.

        The lock is held.
        """
        before = self._info
        wanted = policy_plan(wanted, self._sizes(wanted)).info
        after = msgspec.structs.replace(wanted, revision=before.revision + 1)
        moving = self._moving(after)
        usable = {unit for worker in after.workers if not worker.gone for unit in worker.units}
        free = [name for name in moving if usable.issuperset(_units(before, name))]
        forced = [name for name in moving if name not in free]
        refused = self._place(forced, after, timeout_seconds, trial=False)
        behind = self._place(free, after, timeout_seconds)
        for name, error in {**refused, **behind}.items():
            if isinstance(error, FencedError):
                raise error
            _log.warning("topology did not follow", topology=name, why=why, error=str(error))
        self._behind = set(behind)
        after = _with_fragments(after, before, self._behind)
        if msgspec.structs.replace(after, revision=before.revision) != before:
            self._stand(after, why, [name for name in moving if name not in behind])

    def _moving(self, after: ClusterInfo) -> list[str]:
        before = self._info
        return [name for name in self._topologies if _owners(before, name) != _owners(after, name)]

    def _stand(self, after: ClusterInfo, why: str, moved: Sequence[str]) -> None:
        """Make the next revision."""
        self._epoch.check()
        if not self._revisions.create(Revision(after, self._epoch.number, self._now_ms(), why)):
            self._epoch.check()
            raise FencedError(
                f"another process made revision {after.revision} of the cluster",
                hint="this module now runs there; stop this process",
            )
        self._info = after
        _log.info("cluster changed", revision=after.revision, why=why, moved=list(moved))

    def _place(
        self,
        names: Sequence[str],
        info: ClusterInfo,
        timeout_seconds: float,
        *,
        trial: bool = True,
    ) -> dict[str, AtollError]:
        """Move topologies at once; what those that stay where they are say."""

        def place(name: str) -> AtollError | None:
            try:
                to = placement_of(info, name)
                self._topologies[name].place(to, timeout_seconds, trial=trial)
            except AtollError as error:
                return error
            return None

        if not names:
            return {}
        with ThreadPoolExecutor(len(names)) as threads:
            answers = dict(zip(names, threads.map(place, names), strict=True))
        return {name: error for name, error in answers.items() if error is not None}


def _owners(info: ClusterInfo, topology: str) -> list[tuple[int, tuple[int, ...]]]:
    return [(each.id, each.owners) for each in info.fragments if each.topology == topology]


def _units(info: ClusterInfo, topology: str) -> set[int]:
    return {unit for each in info.fragments if each.topology == topology for unit in each.owners}


def _with_fragments(info: ClusterInfo, other: ClusterInfo, topologies: set[str]) -> ClusterInfo:
    """The info with the fragments of these topologies as the other one has them."""
    kept = {each.id: each for each in other.fragments if each.topology in topologies}
    fragments = tuple(kept.get(each.id, each) for each in info.fragments)
    return msgspec.structs.replace(info, fragments=fragments)
