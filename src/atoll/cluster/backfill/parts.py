"""The two topologies that one is while PStates of it are filled, bound to types."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from atoll.cluster.backfill.parting import parted
from atoll.engine.binding.bind import bind
from atoll.engine.binding.pstates import BoundPStates
from atoll.topology.jobs import cut_into_jobs

if TYPE_CHECKING:
    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.topology.graph import Graph
    from atoll.views.deployment import FillingDeployment


@dataclass(frozen=True)
class Parts:
    """A topology in two.

    Attributes:
        filling: What is filled, and by which topology.
        rest: The topology without the steps that fill.
        fills: These steps.
    """

    filling: FillingDeployment
    rest: BoundTopology
    fills: BoundTopology


def parts_of(whole: BoundTopology, filling: FillingDeployment) -> Parts:
    """The parts of a topology; both run on its placement, with its options."""
    rest, fills = parted(whole.declared.graph, filling.pstates, filling.name)
    return Parts(filling, _part(whole, rest), _part(whole, fills, f"filling/{filling.name}"))


def _part(whole: BoundTopology, graph: Graph, local: str = "") -> BoundTopology:
    """Some steps of it; ``local`` is for stores of their own in the hosts' caches."""
    specs = {name: spec for name, spec in whole.program.pstates.items() if name in graph.pstates}
    cut = cut_into_jobs(graph, whole.in_tasks)
    folders = replace(whole.program.folders, part=local)
    program = bind(
        BoundPStates(graph, specs), cut, whole.schemas, folders, dict(whole.program.mirrors)
    )
    declared = copy.copy(whole.declared)
    declared.graph = graph
    depots = {name for name, _ in program.depots.values()}
    known = whole.program.depot_migrations
    migrations = {name: each for name, each in known.items() if name in depots}
    return replace(
        whole,
        declared=declared,
        cut=cut,
        program=replace(program, depot_migrations=migrations),
    )
