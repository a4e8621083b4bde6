"""Reschedules: which units run a fragment from now on, checked in full and planned before it is.

A request names for each fragment the units to remove and to add: scale-out, scale-in and
migration are one operation. It is atomic over its fragments: every check runs before anything is
planned, and what comes out is a value, the next revision of the cluster, that takes effect only
when the caller makes it the current one. A dry run is the same call with its result thrown away
after a look.

Fragments that follow another run where their root runs. A request names roots; with ``resolve``
the changes of followers count as changes of their root.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from atoll.placement.info import ClusterInfo, Fragment
from atoll.placement.policies.shortage import Shortage
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.checks import check
from atoll.placement.reschedule.rebalance import Move, moves, rebalance


class ReschedulePlan(msgspec.Struct, frozen=True):
    """What a request does; every dict by root fragment, of those that change.

    Attributes:
        changes: The changes, those of followers as their root's; changes of nothing left out.
        owners: The new owners, in the form of :attr:`Fragment.owners`.
        moves: The vnodes that change owner; none for a source fragment.
        vnodes: For each unit how many vnodes it owns before and after; empty for a source.
        bytes_moved: How many bytes change worker; None when that was not told (no sizes).
        info: The cluster afterwards; the same as before when there is nothing to do.
        shortage: What the topology lacks by the policy that was asked for; None when nothing.
    """

    changes: dict[int, UnitChange]
    owners: dict[int, tuple[int, ...]]
    moves: dict[int, list[Move]]
    vnodes: dict[int, dict[int, tuple[int, int]]]
    bytes_moved: int | None
    info: ClusterInfo
    shortage: Shortage | None = None

    @property
    def is_noop(self) -> bool:
        """Whether no action is required."""
        return not self.changes

    @property
    def vnodes_moved(self) -> int:
        """How many vnodes change owner, a root and its followers counted once."""
        return sum(map(len, self.moves.values()))


def plan(
    info: ClusterInfo,
    request: Request,
    sizes: Mapping[int, Sequence[int]] = {},
    *,
    unavailable: str | None = None,
    starting: Container[str] = (),
    keep_policies: bool = False,
) -> ReschedulePlan:
    """What the request does, after all checks; nothing happens yet.

    Args:
        info: The cluster as it is.
        request: What is asked for. One without any change is granted: no action is required.
        sizes: For a root fragment the bytes of each of its vnodes, its followers' included;
            plans that move fewer bytes are preferred.
        unavailable: Why the cluster takes no reschedule now; None when it does.
        starting: The topologies that do not run yet.
        keep_policies: Whether a policy asks. Else the policy of each topology that moves becomes
            ``custom``, so that no policy takes back what a person asked for.

    Raises:
        RescheduleError: The first of the checks of :func:`check` that finds something.
        UsageError: When the sizes of a fragment are not those of its vnodes.
    """
    checked = check(info, request, unavailable=unavailable, starting=starting)
    changes = {root: change for root, change in checked.items() if change != UnitChange()}
    workers = {unit: each.id for each in info.workers for unit in each.units}

    def worker_of(unit: int) -> int:
        """Its worker; a unit that was taken from its worker counts as one of its own."""
        return workers.get(unit, -1 - unit)

    roots = {root: info.fragment(root) for root in changes}
    owners = {
        root: _new_owners(fragment, changes[root], worker_of, sizes.get(root))
        for root, fragment in roots.items()
    }
    after = info.with_owners(owners)
    moved = {root: _moves(fragment, after.fragment(root)) for root, fragment in roots.items()}
    return ReschedulePlan(
        changes=changes,
        owners=owners,
        moves=moved,
        vnodes={root: _counts(each, after.fragment(root)) for root, each in roots.items()},
        bytes_moved=_bytes_moved(moved, worker_of, sizes),
        info=_next_revision(info, after, keep_policies=keep_policies) if changes else info,
    )


def _new_owners(
    fragment: Fragment,
    change: UnitChange,
    worker_of: Callable[[int], int],
    sizes: Sequence[int] | None,
) -> tuple[int, ...]:
    if fragment.kind == "source":
        return change.apply(fragment.units)
    return rebalance(
        fragment.mapping,
        added=change.added,
        removed=change.removed,
        worker_of=worker_of,
        sizes=sizes,
    ).units


def _moves(before: Fragment, after: Fragment) -> list[Move]:
    return [] if before.kind == "source" else moves(before.mapping, after.mapping)


def _counts(before: Fragment, after: Fragment) -> dict[int, tuple[int, int]]:
    """How many vnodes each unit owns, before and after."""
    if before.kind == "source":
        return {}
    was, becomes = before.mapping.counts(), after.mapping.counts()
    return {unit: (was.get(unit, 0), becomes.get(unit, 0)) for unit in sorted(was | becomes)}


def _bytes_moved(
    moved: Mapping[int, Sequence[Move]],
    worker_of: Callable[[int], int],
    sizes: Mapping[int, Sequence[int]],
) -> int | None:
    """How many bytes change worker; None when a vnode does whose size was not told."""
    total = 0
    for root, each in moved.items():
        vnodes = [move.vnode for move in each if worker_of(move.source) != worker_of(move.target)]
        if vnodes and root not in sizes:
            return None
        total += sum(sizes[root][vnode] for vnode in vnodes)
    return total


def _next_revision(info: ClusterInfo, after: ClusterInfo, *, keep_policies: bool) -> ClusterInfo:
    """The info after, a revision higher; topologies that run elsewhere get the policy custom."""
    pairs = zip(info.fragments, after.fragments, strict=True)
    moved = {now.topology for was, now in pairs if was.owners != now.owners}
    policies = info.policies if keep_policies else info.policies | dict.fromkeys(moved, "custom")
    return msgspec.structs.replace(after, revision=info.revision + 1, policies=policies)
