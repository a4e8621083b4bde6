"""Binds a topology to types: what was declared by name becomes a program that tasks can run.

Runs once per deployment, on the driver, with the column types that the engine resolved. All that
can be wrong about types is found here, before the first record. What a step becomes it says
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atoll.engine.binding.reporting import reported_once
from atoll.engine.exchange.provenance import tracked_operators
from atoll.engine.program import JobProgram, Program, TaskChain
from atoll.errors import DeclarationError
from atoll.topology.binding import Binding, Schemas
from atoll.topology.operator import (
    BatchOperator,
    ColumnOperator,
    Operator,
    RootOperator,
    StateOperator,
)
from atoll.topology.sources import Tick

if TYPE_CHECKING:
    from atoll.engine.binding.pstates import BoundPStates
    from atoll.pstate.spec import PStateSpec
    from atoll.storage.folders import RootFolders
    from atoll.topology.graph import Graph
    from atoll.topology.jobs import Chain, Cut, Job


def bind(
    bound: BoundPStates,
    cut: Cut,
    schemas: Schemas,
    folders: RootFolders,
    readable: Mapping[str, PStateSpec] | None = None,
) -> Program:
    """The program of a topology.

    Args:
        bound: The topology's PStates.
        cut: Its jobs.
        schemas: The columns after every operator.
        folders: Where its tasks find things.
        readable: The PStates of the module's other topologies by name, and those of other
            modules by ``module.name``.

    Raises:
        DeclarationError: When a key or an aggregate does not fit the types that reach it.
    """
    graph = bound.graph
    elsewhere = _elsewhere(graph, readable or {})
    binding = Binding(
        graph.topology, graph.pstates, graph.queries, cut.number, schemas, bound.specs | elsewhere
    )
    jobs = tuple(_job(job, binding) for job in cut.jobs)
    if graph.dead_letter is not None:
        jobs = reported_once(jobs, cut)
    depots = {
        cut.number[source]: (source.depot.name, source.depot.rows) for source in graph.sources
    }
    for each in graph.operators:
        if isinstance(each, Tick):
            depots[cut.number[each]] = (each.tick.name, each.tick.schema)
    return Program(
        graph.module,
        graph.topology,
        folders,
        bound.specs,
        jobs,
        depots,
        tracked=frozenset(cut.number[each] for each in tracked_operators(graph)),
        mirrors=elsewhere,
        dead_letter=None if graph.dead_letter is None else graph.dead_letter.name,
    )


def _elsewhere(graph: Graph, readable: Mapping[str, PStateSpec]) -> dict[str, PStateSpec]:
    found = {}
    for name, place in graph.read_elsewhere().items():
        if name not in readable:
            raise DeclarationError(
                f"topology {graph.topology!r} reads {name!r}, which module {graph.module!r} does "
                "not mirror",
                hint="give what mirror_pstate(...) of the very module returned that is deployed",
                declared=place,
            )
        found[name] = readable[name]
    return found


def _job(job: Job, binding: Binding) -> JobProgram:
    steps = tuple(bound for step in job.steps for bound in step.bind(binding))
    chains: dict[tuple[int, ...], TaskChain] = {}
    for chain in job.chains:
        origin = binding.number[chain.origin]
        numbers = tuple(binding.number[each] for each in chain.steps)
        known = chains.get((origin, *numbers))
        chains[origin, *numbers] = TaskChain(
            origin,
            binding.schemas[chain.origin],
            _steps(chain, binding) if known is None else known.steps,
            (*(() if known is None else known.ends), binding.number[_fed(chain)]),
            numbers,
            reads=isinstance(chain.origin, RootOperator | StateOperator),
        )
    return JobProgram(job.index, tuple(chains.values()), steps, fires=_fires(job))


def _steps(chain: Chain, binding: Binding) -> tuple[BatchOperator, ...]:
    """The steps of a chain as tasks run them; of a union the rows of one branch pass."""
    found: list[BatchOperator] = []
    rows = binding.schemas[chain.origin]
    for step in chain.steps:
        made = binding.schemas[step]
        found.append(step.in_task(rows, made) if isinstance(step, ColumnOperator) else step)
        rows = made
    return tuple(found)


def _fed(chain: Chain) -> Operator:
    """What the rows of a chain are packed for: the state step, or one of its sides."""
    last = chain.steps[-1] if chain.steps else None
    return last if isinstance(last, BatchOperator) and last.is_side else chain.end


def _fires(job: Job) -> bool:
    """Whether a step of the job makes rows although it reads none."""

    def climb(operator: Operator) -> bool:
        if isinstance(operator, RootOperator | StateOperator):
            return False
        return operator.fires or any(climb(each) for each in operator.inputs)

    folds = any(each.fires for each in job.steps)
    return folds or any(climb(chain.origin) for chain in job.chains)
