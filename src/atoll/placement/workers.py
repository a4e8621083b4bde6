"""Who is in the cluster: workers join, come back, are cordoned, leave, and are removed.

Each function takes the cluster's value and gives the next one, a revision higher; when nothing
is new it gives the very same object, so a caller may repeat itself without making revisions.
That one has gone is said by which processes reach it (:mod:`atoll.placement.registry`).
Nothing here moves work: what a worker that has gone owned it still owns, until a policy or a
person re-plans it (:mod:`atoll.placement.reschedule.plan`).

A worker's name is its identity. One that comes back under its name finds its id, its units and
its cordon again, and so the state that lies in its folder. Ids of workers and units that were
given up are never used again, so an id that stands in an old plan can never mean something new.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from atoll.errors import RescheduleError, UsageError
from atoll.placement.info import ClusterInfo, Worker

_replace = msgspec.structs.replace


def join(info: ClusterInfo, name: str, host: str, units: int) -> ClusterInfo:
    """The cluster once a worker of that name runs there with so many parallel units.

    A known worker keeps its unit ids as far as it can: it gets further ones when it has more
    units than before, and loses the highest when it has fewer. Fragments on a unit that it lost
    still name that unit: re-plan them.

    Args:
        info: The cluster before.
        name: What the worker is known by.
        host: Where it runs now.
        units: How many parallel units it has now.

    Raises:
        UsageError: When it has no name, or no unit.
    """
    if not name or units < 1:
        raise UsageError(
            f"a worker {name!r} with {units} parallel units cannot join",
            hint="give it a name and at least one parallel unit",
        )
    known = next((each for each in info.workers if each.name == name), None)
    kept = known.units[:units] if known else ()
    next_unit = info.next_unit + units - len(kept)
    ids = (*kept, *range(info.next_unit, next_unit))
    if known is None:
        joined = Worker(info.next_worker, name, host, ids)
        info = msgspec.structs.replace(info, next_worker=info.next_worker + 1)
        after = _with_workers(info, (*info.workers, joined))
    else:
        leaving = known.leaving and not known.gone  # who comes back does not leave any more
        back = msgspec.structs.replace(known, host=host, units=ids, gone=False, leaving=leaving)
        after = _replaced(info, [back])
    return after if after is info else msgspec.structs.replace(after, next_unit=next_unit)


def cordon(info: ClusterInfo, ids: Iterable[int]) -> ClusterInfo:
    """The cluster once these workers get no new actors; those that they have stay.

    Raises:
        NotFoundError: When one of them is unknown; then none is cordoned.
    """
    return _replaced(info, [_replace(info.worker(each), cordoned=True) for each in set(ids)])


def leave(info: ClusterInfo, ids: Iterable[int]) -> ClusterInfo:
    """The cluster once these workers will end soon: policies move what they have to others.

    Raises:
        NotFoundError: When one of them is unknown; then none leaves.
    """
    return _replaced(info, [_replace(info.worker(each), leaving=True) for each in set(ids)])


def uncordon(info: ClusterInfo, ids: Iterable[int]) -> ClusterInfo:
    """The cluster once these workers may get new actors again, and leave no more.

    Raises:
        NotFoundError: When one of them is unknown; then all stay as they are.
    """
    changed = [_replace(info.worker(n), cordoned=False, leaving=False) for n in set(ids)]
    return _replaced(info, changed)


def remove(info: ClusterInfo, ids: Iterable[int]) -> ClusterInfo:
    """The cluster without these workers, running or not; all of them, or none.

    One that joins again under its name is a new worker with new ids.

    Raises:
        NotFoundError: When one of them is unknown.
        RescheduleError: ``worker occupied`` when a unit of theirs still runs an actor; in the
            context ``workers`` are the ids of those, ``fragments`` says for each fragment on
            which of their units it runs.
    """
    leaving = [info.worker(each) for each in sorted(set(ids))]
    units = {unit for each in leaving for unit in each.units}
    fragments = {
        each.id: [unit for unit in each.units if unit in units]
        for each in info.fragments
        if not units.isdisjoint(each.owners)
    }
    if fragments:
        busy = {unit for on in fragments.values() for unit in on}
        occupied = [each for each in leaving if not busy.isdisjoint(each.units)]
        raise RescheduleError(
            "actors still run on " + ", ".join(f"worker {w.id} ({w.name})" for w in occupied),
            hint="cordon it and move its actors to other workers first",
            problem="worker occupied",
            workers=[each.id for each in occupied],
            fragments=fragments,
        )
    if not leaving:
        return info
    return _with_workers(info, tuple(each for each in info.workers if each not in leaving))


def _replaced(info: ClusterInfo, changed: Iterable[Worker]) -> ClusterInfo:
    """The next revision, with these in the place of those with their ids; as it was if equal."""
    by_id = {each.id: each for each in changed}
    workers = tuple(by_id.get(each.id, each) for each in info.workers)
    return info if workers == info.workers else _with_workers(info, workers)


def _with_workers(info: ClusterInfo, workers: tuple[Worker, ...]) -> ClusterInfo:
    """The next revision, with these workers."""
    return msgspec.structs.replace(info, workers=workers, revision=info.revision + 1)
