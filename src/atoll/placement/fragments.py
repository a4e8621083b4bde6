"""The fragments of a topology as it is deployed, and where they first go.

A deployment names its fragments; those that the cluster knows keep their ids and their places, so
state stays where it lies when a new version of a module is deployed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from atoll.errors import DeclarationError
from atoll.placement.info import ClusterInfo, Fragment, FragmentKind
from atoll.placement.mapping import Mapping


class FragmentSpec(msgspec.Struct, frozen=True):
    """A fragment as declared.

    Attributes:
        name: Unique in its topology.
        pstates: The PStates that it reads or writes.
        vnode_count: How many vnodes these have; 0 for the source fragment.
        upstream: The names of the fragments whose rows come to it.
    """

    name: str
    pstates: tuple[str, ...] = ()
    vnode_count: int = 0
    upstream: tuple[str, ...] = ()

    @property
    def kind(self) -> FragmentKind:
        """How it is scheduled."""
        match self.vnode_count:
            case 0:
                return "source"
            case 1:
                return "singleton"
        return "hash"


def with_topology(info: ClusterInfo, topology: str, specs: Sequence[FragmentSpec]) -> ClusterInfo:
    """The info with exactly these fragments of a topology. The revision stays.

    A fragment of a known name keeps its id. A group of fragments that share PStates keeps its
    owners if one of them was there; a new group is spread evenly over the schedulable units, a
    new singleton goes where the fewest singletons are.

    Raises:
        DeclarationError: When a new fragment finds no unit to run on.
    """
    known = {each.name: each for each in info.fragments if each.topology == topology}
    ids, following = {}, info.next_fragment
    for spec in specs:
        if spec.name in known:
            ids[spec.name] = known[spec.name].id
        else:
            ids[spec.name], following = following, following + 1
    others = tuple(each for each in info.fragments if each.topology != topology)
    placed = msgspec.structs.replace(info, fragments=others, next_fragment=following)
    for group in _groups(specs):
        root = min(ids[spec.name] for spec in group)
        count = group[0].vnode_count
        kept = [known[spec.name] for spec in group if spec.name in known]
        fitting = [each for each in kept if each.kind == group[0].kind]
        owners = next((f.owners for f in fitting if not count or len(f.owners) == count), None)
        if owners is None:
            owners = _first_owners(placed, group[0])
        added = tuple(
            Fragment(
                ids[s.name],
                topology,
                s.name,
                s.kind,
                root,
                s.pstates,
                owners,
                tuple(sorted(ids[name] for name in s.upstream)),
            )
            for s in group
        )
        fragments = sorted((*placed.fragments, *added), key=lambda each: each.id)
        placed = msgspec.structs.replace(placed, fragments=tuple(fragments))
    return placed


def without_topologies(info: ClusterInfo, kept: Sequence[str]) -> ClusterInfo:
    """The info without the fragments and policies of all other topologies. The revision stays."""
    return msgspec.structs.replace(
        info,
        fragments=tuple(each for each in info.fragments if each.topology in kept),
        policies={name: policy for name, policy in info.policies.items() if name in kept},
    )


def _groups(specs: Sequence[FragmentSpec]) -> list[list[FragmentSpec]]:
    """The specs in groups that share PStates, directly or through others, in order."""
    groups: list[list[FragmentSpec]] = []
    for spec in specs:
        mine = [g for g in groups if any(set(spec.pstates) & set(each.pstates) for each in g)]
        joined = [each for group in mine for each in group]
        groups = [group for group in groups if group not in mine]
        groups.append([*joined, spec])
    for group in groups:
        assert len({each.vnode_count for each in group}) == 1, "shared state has one vnode count"
    return groups


def _first_owners(info: ClusterInfo, spec: FragmentSpec) -> tuple[int, ...]:
    units = info.schedulable_units()
    if not units:
        raise DeclarationError(
            f"fragment {spec.name!r} finds no parallel unit to run on",
            hint="let a worker join, or uncordon one: atoll worker uncordon, or when nothing runs "
            "atoll run --uncordon",
        )
    match spec.kind:
        case "source":
            return units
        case "singleton":
            single = [each.owners[0] for each in info.roots() if each.kind == "singleton"]
            return (min(units, key=lambda unit: (single.count(unit), unit)),)
    return Mapping.even(spec.vnode_count, units[: spec.vnode_count]).units
