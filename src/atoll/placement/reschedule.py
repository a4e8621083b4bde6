"""Reschedules: which units run a fragment from now on, checked in full and planned before it is.

A request names for each fragment the units to remove and to add: scale-out, scale-in and
migration are one operation. It is atomic over its fragments: every check runs before anything is
planned, and what comes out is a value, the next revision of the cluster, that takes effect only
when the caller makes it the current one. A dry run is the same call with its result thrown away
after a look.

The checks protect people, not data: any unit may own any vnode without changing a result, and a
bad placement costs only time. They run in a fixed order, from the cluster over the workers to
the single fragment, so that the same request is always refused for the same reason; the
revision comes early, because a plan made from an old picture is not worth reading further.

Fragments that follow another run where their root runs. A request names roots; with ``resolve``
the changes of followers count as changes of their root.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from atoll.errors import NotFoundError, RescheduleError
from atoll.placement.info import ClusterInfo, Fragment
from atoll.placement.rebalance import Move, moves, rebalance

__all__ = ["Change", "Plan", "Request", "check", "plan"]


class Change(msgspec.Struct, frozen=True):
    """What changes for one fragment; both are sets, kept sorted.

    Attributes:
        added: Units that get an actor.
        removed: Units that lose theirs. A unit in both has its actor rebuilt in place: it keeps
            what it owns.
    """

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Sort, and drop duplicates, so that equal changes are equal values."""
        msgspec.structs.force_setattr(self, "added", tuple(sorted(set(self.added))))
        msgspec.structs.force_setattr(self, "removed", tuple(sorted(set(self.removed))))

    @property
    def rebuilt(self) -> tuple[int, ...]:
        """The units whose actors are rebuilt in place."""
        return tuple(unit for unit in self.added if unit in self.removed)

    def apply(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """The units that run the fragment afterwards, lowest first."""
        return tuple(sorted((set(units) - set(self.removed)) | set(self.added)))


class Request(msgspec.Struct, frozen=True):
    """What is asked for.

    Attributes:
        changes: By fragment.
        revision: The revision of the cluster that the asker looked at.
        resolve: Whether a change of a fragment that follows another is meant for its root.
    """

    changes: dict[int, Change]
    revision: int
    resolve: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What a request does; every dict by root fragment, of those that change.

    Attributes:
        changes: The changes, those of followers as their root's; changes of nothing left out.
        owners: The new owners, in the form of :attr:`Fragment.owners`.
        moves: The vnodes that change owner; none for a source fragment.
        vnodes: For each unit how many vnodes it owns before and after; empty for a source.
        bytes_moved: How many bytes change worker; None when that was not told (no sizes).
        info: The cluster afterwards; the same as before when there is nothing to do.
    """

    changes: dict[int, Change]
    owners: dict[int, tuple[int, ...]]
    moves: dict[int, list[Move]]
    vnodes: dict[int, dict[int, tuple[int, int]]]
    bytes_moved: int | None
    info: ClusterInfo

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
) -> Plan:
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
    changes = {root: change for root, change in checked.items() if change != Change()}
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
    return Plan(
        changes=changes,
        owners=owners,
        moves=moved,
        vnodes={root: _counts(each, after.fragment(root)) for root, each in roots.items()},
        bytes_moved=_bytes_moved(moved, worker_of, sizes),
        info=_next_revision(info, after, keep_policies=keep_policies) if changes else info,
    )


def check(
    info: ClusterInfo,
    request: Request,
    *,
    unavailable: str | None = None,
    starting: Container[str] = (),
) -> dict[int, Change]:
    """The changes asked for by root, once nothing speaks against them.

    Args:
        info: The cluster as it is.
        request: What is asked for.
        unavailable: Why the cluster takes no reschedule now; None when it does.
        starting: The topologies that do not run yet.

    Raises:
        RescheduleError: The first of the checks, in the order in which its docstring names
            them, that finds something; fragments and units are looked at lowest first.
    """
    _check_cluster(info, request, unavailable)
    changes = dict(sorted(request.changes.items()))
    _check_cordons(info, changes)
    if request.resolve:
        changes = _resolved(info, changes)
    for number, change in changes.items():
        fragment = _check_fragment(info, number, starting)
        _check_units(info, fragment, change)
        _check_result(fragment, change)
    return changes


def _check_cluster(info: ClusterInfo, request: Request, unavailable: str | None) -> None:
    if unavailable is not None:
        raise RescheduleError(
            f"the cluster takes no reschedule now: {unavailable}",
            hint="try again when it runs",
            problem="unavailable",
        )
    if request.revision != info.revision:
        raise RescheduleError(
            f"the cluster is at revision {info.revision}, not at {request.revision}",
            hint="look at the cluster again, then ask with its revision",
            problem="stale revision",
            revision=info.revision,
            asked=request.revision,
        )
    if all(each.gone for each in info.workers):
        raise RescheduleError(
            "no worker is running", hint="start a worker first", problem="no workers"
        )


def _check_cordons(info: ClusterInfo, changes: Mapping[int, Change]) -> None:
    """A new actor on a cordoned worker is refused, even one rebuilt; taking one off is fine."""
    cordoned = {u: each for each in info.workers if each.state == "cordoned" for u in each.units}
    for fragment, change in changes.items():
        for unit in change.added:
            if unit in cordoned:
                worker = cordoned[unit]
                raise RescheduleError(
                    f"parallel unit {unit} gets no actor of {_named_in(info, fragment)}, as "
                    f"worker {worker.id} ({worker.name}) is cordoned",
                    hint=f"uncordon worker {worker.id}, or add a unit of another worker",
                    problem="cordoned worker",
                    fragment=fragment,
                    unit=unit,
                    worker=worker.id,
                )


def _resolved(info: ClusterInfo, changes: Mapping[int, Change]) -> dict[int, Change]:
    """The changes with those of followers as their root's, by ascending root."""
    roots = {each.id: each.root for each in info.fragments}
    askers: dict[int, int] = {}
    for fragment, change in changes.items():
        first = askers.setdefault(roots.get(fragment, fragment), fragment)
        if change != changes[first]:
            raise RescheduleError(
                f"{_named_in(info, first)} and {_named_in(info, fragment)} run on the same "
                "parallel units, but are to change in different ways",
                hint=f"ask for one change, of fragment {roots[fragment]}",
                problem="conflicting changes",
                fragments=[first, fragment],
                root=roots[fragment],
            )
    return {root: changes[asker] for root, asker in sorted(askers.items())}


def _check_fragment(info: ClusterInfo, number: int, starting: Container[str]) -> Fragment:
    try:
        fragment = info.fragment(number)
    except NotFoundError as error:
        raise RescheduleError(
            error.message, hint=error.hint, problem="unknown fragment", fragment=number
        ) from None
    if fragment.topology in starting:
        raise RescheduleError(
            f"{_named(fragment)} does not run yet: topology {fragment.topology!r} is starting",
            hint="try again when it runs",
            problem="fragment not running",
            fragment=number,
            topology=fragment.topology,
        )
    if fragment.follows:
        root = info.fragment(fragment.root)
        raise RescheduleError(
            f"{_named(fragment)} runs where {_named(root)} runs",
            hint=f"change fragment {root.id} instead, or let the request be resolved",
            problem="follows another",
            fragment=number,
            root=root.id,
        )
    return fragment


def _check_units(info: ClusterInfo, fragment: Fragment, change: Change) -> None:
    units = fragment.units
    for unit in change.removed:
        if unit not in units:
            raise _unit_error(
                "unit without actor",
                f"parallel unit {unit} has no actor of {_named(fragment)} to remove",
                f"its actors run on {_listed(units)}",
                (fragment.id, unit),
            )
    for unit in change.added:
        worker = info.worker_of(unit)
        if worker is None or worker.gone:
            where = f", as worker {worker.id} ({worker.name}) has gone" if worker else ""
            raise _unit_error(
                "unknown unit",
                f"there is no parallel unit {unit} to add to {_named(fragment)}{where}",
                f"there are {_listed(info.live_units())}",
                (fragment.id, unit),
            )
    for unit in change.added:
        if unit in units and unit not in change.removed:
            raise _unit_error(
                "unit occupied",
                f"parallel unit {unit} has an actor of {_named(fragment)} already",
                "leave it out, or remove it as well, to rebuild its actor",
                (fragment.id, unit),
            )


def _check_result(fragment: Fragment, change: Change) -> None:
    units = change.apply(fragment.units)
    if not units:
        problem = "nothing left"
        what = "would run on no parallel unit"
        hint = "keep a unit, or add one"
    elif fragment.kind == "singleton" and len(units) > 1:
        problem = "singleton"
        what = f"is a singleton, so it cannot run on {len(units)} parallel units"
        hint = f"to move it, remove {_listed(fragment.units)} and add one unit"
    elif fragment.kind == "hash" and len(units) > len(fragment.owners):
        problem = "more units than vnodes"
        what = f"has {len(fragment.owners)} vnodes for {len(units)} parallel units"
        hint = f"let it run on {len(fragment.owners)} units at most"
    else:
        return
    raise RescheduleError(
        f"{_named(fragment)} {what}", hint=hint, problem=problem, fragment=fragment.id
    )


def _named(fragment: Fragment) -> str:
    return f"fragment {fragment.id} ({fragment.name})"


def _named_in(info: ClusterInfo, number: int) -> str:
    known = (_named(each) for each in info.fragments if each.id == number)
    return next(known, f"fragment {number}")


def _listed(units: tuple[int, ...]) -> str:
    return "parallel units " + ", ".join(map(str, units))


def _unit_error(problem: str, message: str, hint: str, at: tuple[int, int]) -> RescheduleError:
    fragment, unit = at
    return RescheduleError(message, hint=hint, problem=problem, fragment=fragment, unit=unit)


def _new_owners(
    fragment: Fragment,
    change: Change,
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
