"""Finds the hidden state of a topology again on its root, and names it as the root does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.cluster.hidden.adoption import KEPT_AS, Match, Remembered, adopt, at_positions
from atoll.pstate.spec import PStateSpec
from atoll.schema import Map, Node, Struct, to_text
from atoll.topology.fragments import fragment_specs
from atoll.topology.kept.hidden import Hidden, in_pstates
from atoll.topology.kept.renaming import renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.placement.info import ClusterInfo
    from atoll.topology.graph import Graph
    from atoll.views.deployment import Deployment, TopologyDeployment


@dataclass(frozen=True)
class Known:
    """What a root knows of a module: its deployment, and the fragments that it ran as."""

    deployment: Deployment | None = None
    info: ClusterInfo | None = None


def named_as_stored(
    graph: Graph, specs: Mapping[str, PStateSpec], known: Known
) -> tuple[Graph, list[Match]]:
    """The graph with its hidden state called as the root calls it, and what becomes of each.

    Args:
        graph: As declared.
        specs: Its PStates, with the schemas that their types give them.
        known: What the root knows.
    """
    typed = [_typed(each, specs) for each in graph.hidden]
    matches = adopt(_remembered(graph, known), typed)
    by_typed = dict(zip(typed, graph.hidden, strict=True))
    stored = {
        by_typed[match.declared]: match.hidden
        for match in matches
        if match.declared is not None and match.hidden is not None
    }
    return renamed(graph, stored), matches


def hidden_of_topology(topology: TopologyDeployment) -> list[Match]:
    """All hidden state of a topology that goes."""
    return adopt(_of_deployed(topology), [])


def _typed(hidden: Hidden, specs: Mapping[str, PStateSpec]) -> Hidden:
    if not in_pstates(hidden.kind):
        return hidden
    kept = " and ".join(kept_as(specs[name].node) for name in hidden.stored)
    return dataclasses.replace(hidden, means=(*hidden.means, (KEPT_AS, kept)))


def _remembered(graph: Graph, known: Known) -> Remembered | None:
    deployment = known.deployment
    if deployment is None:
        return None
    topology = deployment.topologies.get(graph.topology)
    labels = {part.partition(":")[2] for part in deployment.removed if part.startswith("hidden:")}
    names = {part.partition(":")[2] for part in deployment.removed}
    for each in deployment.topologies.values():
        labels.update(hidden.label for hidden in each.hidden or ())
        names.update(each.pstates)
        names.update(name for hidden in each.hidden or () for name in hidden.stored)
    if topology is None:
        return Remembered((), frozenset(names), frozenset(labels))
    return dataclasses.replace(
        _of_deployed(topology),
        names=frozenset(names),
        labels=frozenset(labels),
        same=topology.hidden is None and _same(graph, topology, known.info),
    )


def _of_deployed(topology: TopologyDeployment) -> Remembered:
    kept = {
        name: kept_as(PStateSpec.from_json(plain).node)
        for name, plain in topology.pstates.items()
        if name.startswith("_")
    }
    return Remembered(topology.hidden, kept_as=kept)


def kept_as(node: Node) -> str:
    """The schema of hidden state, in words; of a join's its two sides apart."""
    keys = []
    below = node
    while isinstance(below, Map):
        keys.append(to_text(below.key))
        below = below.value
    if not isinstance(below, Struct) or below.names() != ("left", "right"):
        return to_text(node)
    sides = [f"{side}: {_rows(rows)}" for side, rows in below.fields]
    return f"rows by {', '.join(keys)}; {'; '.join(sides)}"


def _rows(node: Node) -> str:
    """The rows that a join keeps of a side: many of a key, or one."""
    while isinstance(node, Map):
        node = node.value
    assert isinstance(node, Struct)
    return ", ".join(f"{name} {to_text(member)}" for name, member in node.fields)


def _same(graph: Graph, topology: TopologyDeployment, info: ClusterInfo | None) -> bool:
    """Whether the graph has the sources, PStates and fragments that are deployed."""
    pstates = {name for name, each in graph.pstates.items() if each.hidden is None}
    if pstates != {name for name in topology.pstates if not name.startswith("_")}:
        return False
    if sorted(graph.depots()) != sorted(topology.depots):
        return False
    ran = _fragments(graph.topology, info)
    positions = at_positions(graph.hidden)
    counted = {each: dataclasses.replace(each, stored=positions[each]) for each in graph.hidden}
    names = sorted(each.name for each in fragment_specs(renamed(graph, counted)))
    return not ran or ran == names


def _fragments(topology: str, info: ClusterInfo | None) -> Sequence[str]:
    fragments = () if info is None else info.fragments
    return sorted(each.name for each in fragments if each.topology == topology)
