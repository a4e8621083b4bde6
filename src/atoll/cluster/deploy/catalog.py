"""Everything of one topology that a deployment makes before it runs: checked, bound, placed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from atoll.cluster.hidden.state import Known, named_as_stored
from atoll.cluster.sinks.declared import check_sinks
from atoll.engine.binding.bind import bind
from atoll.engine.binding.pstates import BoundPStates, bind_pstates
from atoll.errors import DeclarationError
from atoll.microbatch.control.options import Options
from atoll.microbatch.control.tuning import Settings, effective
from atoll.steps.columns.schemas import StepWay, column_ways
from atoll.steps.group_agg.folding import folded
from atoll.storage.folders import RootFolders
from atoll.topology.jobs import Cut, cut_into_jobs
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from atoll.cluster.engines import Engine
    from atoll.cluster.hidden.adoption import Match
    from atoll.engine.program import Program
    from atoll.module import Microbatch, Module
    from atoll.pstate.spec import PStateSpec
    from atoll.topology.graph import Graph
    from atoll.topology.kept.hidden import Hidden
    from atoll.topology.operator import Operator


@dataclass(frozen=True)
class BoundTopology:
    """A topology ready to run."""

    declared: Microbatch
    options: Options
    cut: Cut
    schemas: dict[Operator, pa.Schema]
    program: Program
    hidden: list[Match] = field(default_factory=list)
    """What becomes of the state that its steps keep by themselves."""
    columns: list[StepWay] = field(default_factory=list)
    """What runs its column steps."""
    in_tasks: list[Operator] = field(default_factory=list)
    """The column steps that tasks run."""

    def reads(self) -> list[tuple[str, str]]:
        """The modules and topologies whose PStates it reads and does not write."""
        return sorted({(each.module, each.topology) for each in self.program.mirrors.values()})


def bind_topologies(
    engine: Engine,
    module: Module,
    folders: RootFolders,
    settings: Settings,
    mirrors: Mapping[str, PStateSpec],
    known: Known,
) -> list[BoundTopology]:
    """Check a module's topologies in full and bind them.

    Args:
        engine: What will run them.
        module: As declared.
        folders: Where everything lies.
        settings: The options set while the module ran before.
        mirrors: The PStates of other modules that the module mirrors, by ``module.name``.
        known: What the root has of the module.

    Raises:
        DeclarationError: With the place in the user's file and what to change.
    """
    check_sinks(module)
    checked = [_checked(engine, each, settings, known) for each in module.topologies.values()]
    _check_apart(checked)
    readable = dict(mirrors)
    for each in checked:  # all of them first: a topology may ask a query over another's state
        readable.update(each.pstates.specs)
    return [each.bound(folders, readable) for each in checked]


@dataclass(frozen=True)
class _Checked:
    """A topology that is right by itself."""

    declared: Microbatch
    options: Options
    cut: Cut
    schemas: dict[Operator, pa.Schema]
    pstates: BoundPStates
    hidden: list[Match]
    ways: dict[Operator, StepWay]

    def bound(self, folders: RootFolders, readable: Mapping[str, PStateSpec]) -> BoundTopology:
        """Bound to types, with all PStates that it may read."""
        program = bind(self.pstates, self.cut, self.schemas, folders, readable)
        return BoundTopology(
            self.declared,
            self.options,
            self.cut,
            self.schemas,
            program,
            self.hidden,
            list(self.ways.values()),
            _in_tasks(self.ways),
        )


def _checked(engine: Engine, topology: Microbatch, settings: Settings, known: Known) -> _Checked:
    with placed(topology.place):
        topology.graph.check()
        options = effective(topology.options, settings, topology.name)
    _check_targets(topology)
    graph = topology.graph
    schemas, ways = _resolved(engine, graph)
    graph = folded(graph, schemas, ways)
    if graph is not topology.graph:
        schemas, ways = _resolved(engine, graph)
    pstates = bind_pstates(graph, schemas)
    named, hidden = named_as_stored(graph, pstates.specs, known)
    if named is not graph:
        graph = named
        schemas, ways = _resolved(engine, graph)
        pstates = bind_pstates(graph, schemas)
    if graph is not topology.graph:
        topology = copy.copy(topology)
        topology.graph = graph
    cut = cut_into_jobs(graph, _in_tasks(ways))
    return _Checked(topology, options, cut, schemas, pstates, hidden, ways)


def _resolved(
    engine: Engine, graph: Graph
) -> tuple[dict[Operator, pa.Schema], dict[Operator, StepWay]]:
    """The columns after each operator, and which way each column step goes."""
    schemas = engine.schemas(graph)
    return schemas, column_ways(graph, schemas, engine.other_meaning(graph))


def _in_tasks(ways: Mapping[Operator, StepWay]) -> list[Operator]:
    return [step for step, each in ways.items() if each.way == "tasks"]


def _check_apart(checked: Iterable[_Checked]) -> None:
    """Hold that no two topologies would keep hidden state in one PState.

    Its name is made of the topology's and of others, and each may hold what stands between them.
    """
    known: dict[str, Hidden] = {}
    for each in checked:
        for name, pstate in each.declared.graph.pstates.items():
            hidden = pstate.hidden
            if hidden is not None and (other := known.setdefault(name, hidden)) is not hidden:
                raise DeclarationError(
                    f"two steps would keep what they need under one name, {name}: {other.text} in "
                    f"topology {other.topology!r} and {hidden.text} in {hidden.topology!r}",
                    hint=hidden.naming,
                    declared=hidden.place,
                )


def _check_targets(topology: Microbatch) -> None:
    """Hold that the depots appended to are those that are deployed with the topology."""
    for step in topology.graph.state_operators:
        depot = step.appends_to
        known = topology.module.depots | topology.module.mirrored_depots
        if depot is not None and known.get(depot.name) is not depot:
            raise DeclarationError(
                f"{step.title} reaches a depot {depot.name!r} that is not of this module",
                hint="give what depot(...) or mirror_depot(...) of the very module returned that "
                "is deployed",
                declared=step.place,
            )
