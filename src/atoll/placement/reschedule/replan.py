"""Which units fragments get when workers come or go, or a topology asks for more or fewer.

:func:`replan` compares what each fragment has with what its policy asks for, and answers in the
same changes that a person's reschedule is made of. The rules and their reasons:

* What is gone is replaced under every policy, ``custom`` too: a unit that does not run stops the
  topology, and that is nobody's wish.
* What runs on a worker that is leaving moves as if the worker had gone, as long as others are
  there.
* Beyond that, the fewest changes. A new worker is used only by a policy that asks for more units:
  moving an actor costs a cold cache, and all workers are equal in what they compute.
* A cordon alone changes nothing. Its worker gets no new actors, and what it has stays until a
  person moves it. Therefore a ratio counts the units of cordoned workers too: were the kept ones
  counted and the others not, every look at the cluster would find another ratio of it and
  shrink the topology further.
* Units are taken worker by worker in turn: the workers share the work, and losing one of them
  costs the least.
* Singletons have one unit and move only when it is gone: a move would make none of them faster.
* Where nothing is left to run on, nothing is changed. The topology waits, its state keeps its
  place, and a worker that comes back under its name finds everything as it was.

A second look directly after a change was made never asks for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from atoll.placement.info import ClusterInfo, Fragment
from atoll.placement.policies.policy import POLICY_DEFAULT, parse_policy, target
from atoll.placement.reschedule.change import UnitChange


def choose_units(
    info: ClusterInfo, count: int, current: Collection[int], held: Mapping[int, int] = {}
) -> tuple[int, ...]:
    """So many units for a fragment, lowest first; all that it may have when there are fewer.

    Those that it has come first, so that the fewest change. Of these, cordoned ones are given up
    first, then those of the worker with the most of them, then those that hold the fewest bytes.
    New ones are schedulable and come from the worker with the fewest of them. Ties: the worker
    with the lower id gets units first and gives them up last; so does the lower unit of a worker.

    Args:
        info: The cluster.
        count: How many.
        current: The units that the fragment has now, gone ones included.
        held: How many bytes of its state the units hold, where that is known.
    """
    ranked = []
    for worker in info.workers:
        if worker.gone or worker.leaving:
            continue
        allowed = [
            (unit not in current, -held.get(unit, 0), unit)
            for unit in worker.units
            if unit in current or not worker.cordoned
        ]
        # Choosing the n-th unit of a worker before the n+1st of any other takes them in turn.
        for turn, (new, weight, unit) in enumerate(sorted(allowed)):
            ranked.append((new, worker.cordoned, turn, weight, worker.id, unit))
    return tuple(sorted(unit for *_, unit in sorted(ranked)[:count]))


def replan(
    info: ClusterInfo,
    topologies: Collection[str] | None = None,
    sizes: Mapping[int, Sequence[int]] = {},
    counts: Mapping[str, int] = {},
) -> dict[int, UnitChange]:
    """What has to change so that every fragment has live units, as many as its policy asks for.

    Args:
        info: The cluster as it is now.
        topologies: Whose fragments to look at; None: of all.
        sizes: For a root fragment the bytes of each of its vnodes: of the units that may be given
            up, those that hold the fewest are.
        counts: For a topology how many units to start from instead of those that it has: where
            the policy is ``load`` or ``custom``, how many to use.

    Returns:
        The change of each root fragment, by id; those that stay as they are are left out, and so
        are those that find no unit at all.

    Raises:
        UsageError: When the info holds a policy that is none.
    """
    actors = Counter(unit for each in info.fragments for unit in each.units)
    changes = {}
    # Singletons last: they go where the others leave room.
    for root in sorted(info.roots(), key=lambda each: (each.kind == "singleton", each.id)):
        if topologies is not None and root.topology not in topologies:
            continue
        current = set(root.units)
        chosen = set(_chosen(info, root, actors, sizes.get(root.id, ()), counts))
        if not chosen or chosen == current:
            continue
        change = UnitChange(added=tuple(chosen - current), removed=tuple(current - chosen))
        for _ in info.group(root.id):
            actors.update(change.added)
            actors.subtract(change.removed)
        changes[root.id] = change
    return dict(sorted(changes.items()))


def _chosen(
    info: ClusterInfo,
    root: Fragment,
    actors: Counter[int],
    sizes: Sequence[int],
    counts: Mapping[str, int],
) -> tuple[int, ...]:
    """The units that a root and its followers should have; none when there are none to have."""
    live = info.staying_units()
    if root.kind == "singleton":
        if set(root.units) <= set(live):
            return root.units
        emptiest_first = sorted(info.schedulable_units(), key=lambda unit: (actors[unit], unit))
        return tuple(emptiest_first[:1])
    policy = parse_policy(info.policies.get(root.topology, POLICY_DEFAULT), custom_allowed=True)
    vnode_count = None if root.kind == "source" else len(root.owners)
    current = counts.get(root.topology, len(root.units))
    count = target(policy, len(live), vnode_count, current)
    held = Counter[int]()
    for unit, size in zip(root.owners, sizes, strict=False):
        held[unit] += size
    return choose_units(info, count, root.units, held)
