"""The checks that a reschedule passes, in a fixed order, before anything is planned.

They protect people, not data: any unit may own any vnode without changing a result, and a bad
placement costs only time. They run from the cluster over the workers to the single fragment, so
that the same request is always refused for the same reason; the revision comes early, because a
plan made from an old picture is not worth reading further.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from atoll.errors import NotFoundError, RescheduleError
from atoll.placement.info import ClusterInfo, Fragment
from atoll.placement.reschedule.change import Request, UnitChange


def check(
    info: ClusterInfo,
    request: Request,
    *,
    unavailable: str | None = None,
    starting: Container[str] = (),
) -> dict[int, UnitChange]:
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


def _check_cordons(info: ClusterInfo, changes: Mapping[int, UnitChange]) -> None:
    """A new actor on a cordoned worker is refused, even one rebuilt; taking one off is fine."""
    closed = ("cordoned", "leaving")
    cordoned = {u: each for each in info.workers if each.state in closed for u in each.units}
    for fragment, change in changes.items():
        for unit in change.added:
            if unit in cordoned:
                worker = cordoned[unit]
                raise RescheduleError(
                    f"parallel unit {unit} gets no actor of {_named_in(info, fragment)}, as "
                    f"worker {worker.id} ({worker.name}) is {worker.state}",
                    hint=f"uncordon worker {worker.id}, or add a unit of another worker",
                    problem="cordoned worker",
                    fragment=fragment,
                    unit=unit,
                    worker=worker.id,
                )


def _resolved(info: ClusterInfo, changes: Mapping[int, UnitChange]) -> dict[int, UnitChange]:
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


def _check_units(info: ClusterInfo, fragment: Fragment, change: UnitChange) -> None:
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


def _check_result(fragment: Fragment, change: UnitChange) -> None:
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
