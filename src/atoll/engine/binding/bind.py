"""Binds a topology to types: what was declared by name becomes a program that tasks can run.

Runs once per deployment, on the driver, with the column types that the engine resolved. All that
can be wrong about types is found here, before the first record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import pyarrow as pa

from atoll.arrow_types import arrow_type, value_type
from atoll.engine.binding.keys import elements_of, process_key
from atoll.engine.binding.pstates import BoundPStates, Schemas, input_types, position_of
from atoll.engine.binding.reporting import reported_once
from atoll.engine.exchange.provenance import tracked_operators
from atoll.engine.program import (
    AggregateTerminal,
    AppendTerminal,
    ChangesTerminal,
    FoldedField,
    JobProgram,
    LookupTerminal,
    MaterializeTerminal,
    ProcessTerminal,
    Program,
    TaskChain,
    Terminal,
)
from atoll.errors import DeclarationError
from atoll.module import entry_keys
from atoll.pstate.spec import PStateSpec
from atoll.queries.ask import Ask
from atoll.queries.declare import read_elsewhere
from atoll.schema import List, Map, Node, Scalar, Set, Struct
from atoll.steps.aggregate.declare import Aggregate
from atoll.steps.append_to.declare import AppendTo
from atoll.steps.append_to.fitting import check_columns
from atoll.steps.append_to.run import partitioner_of
from atoll.steps.changes.declare import Changes
from atoll.steps.columns.computing import computing
from atoll.steps.columns.group_agg import GroupAgg
from atoll.steps.distinct_count.bind import first_seen_schema, first_seen_terminal
from atoll.steps.distinct_count.declare import FirstSeen
from atoll.steps.fold.bind import fold_schema, fold_terminal
from atoll.steps.fold.declare import Fold
from atoll.steps.incremental_join.bind import join_schema, join_terminals
from atoll.steps.incremental_join.declare import IncrementalJoin, JoinSide
from atoll.steps.lookup.declare import Lookup
from atoll.steps.materialize.declare import Materialize
from atoll.steps.observe.declare import Observe
from atoll.steps.process.declare import Process
from atoll.steps.sources.tick import Tick
from atoll.steps.windows.bind import window_schema, window_terminal
from atoll.steps.windows.declare import WindowAgg
from atoll.steps.windows.terminals import LiveSessionsTerminal, ObserveTerminal
from atoll.storage.folders import RootFolders
from atoll.topology.declared import PStateDeclaration
from atoll.topology.graph import Graph
from atoll.topology.jobs import Chain, Fragments, Job, Step
from atoll.topology.operator import BatchOperator, Operator, RootOperator, StateOperator
from atoll.topology.usercode import placed

__all__ = ["bind", "emitted_schema", "lookup_terminal"]

_FIELD_NAME = Scalar("str")


def bind(
    bound: BoundPStates,
    cut: Fragments,
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
    jobs = tuple(_job(job, cut, schemas, bound, bound.specs | elsewhere) for job in cut.jobs)
    if graph.dead_letter is not None:
        jobs = reported_once(jobs, cut)
    depots = {
        cut.number[source]: (source.depot.name, source.depot.schema) for source in graph.sources
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
    for name, place in read_elsewhere(graph).items():
        if name not in readable:
            raise DeclarationError(
                f"topology {graph.topology!r} reads {name!r}, which module {graph.module!r} does "
                "not mirror",
                hint="give what mirror_pstate(...) of the very module returned that is deployed",
                declared=place,
            )
        found[name] = readable[name]
    return found


def emitted_schema(step: StateOperator, schemas: Schemas) -> pa.Schema:
    """The columns of the rows that a state step emits.

    Raises:
        DeclarationError: When two columns would have one name.
    """
    match step:
        case Process(emitted=emitted) if emitted is not None:
            return emitted
        case Lookup(target=target, column=column):
            value = pa.field(column, _value_type(target.node, step))
            return _distinct(schemas[step.inputs[0]].append(value), step)
        case Changes(pstate=pstate, key_names=names):
            kinds = entry_keys(pstate.node, step.place)
            fields = [pa.field(n, arrow_type(k)) for n, k in zip(names, kinds, strict=True)]
            value_kind = _changed_type(pstate, step)
            fields += [pa.field("old", value_kind), pa.field("new", value_kind)]
            return _distinct(pa.schema(fields), step)
        case Fold():
            return fold_schema(step, schemas[step.inputs[0]])
        case WindowAgg():
            return window_schema(step, schemas[step.inputs[0]])
        case FirstSeen():
            return first_seen_schema(step, schemas[step.inputs[0]])
        case IncrementalJoin():
            return join_schema(step, _both(step, schemas))
        case Ask(added=added):
            return _distinct(pa.schema([*schemas[step.inputs[0]], *added]), step)
        case Materialize():
            return schemas[step.inputs[0]]
    return pa.schema([])


def _changed_type(pstate: PStateDeclaration, step: Operator) -> pa.DataType:
    node = pstate.node
    while hasattr(node, "value"):
        node = node.value
    return pa.bool_() if isinstance(node, Set) else _value_type(node, step)


def _value_type(node: Node, step: Operator) -> pa.DataType:
    """The type of a column of whole values of a PState."""
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, Struct):
            if each.names() == tuple(f"f{index}" for index in range(len(each.fields))):
                raise DeclarationError(
                    f"in a column, a struct of {', '.join(each.names())} is a tuple; the PState "
                    "has it as a struct",
                    hint="call the fields something else, or declare tuple[...]",
                    declared=step.place,
                )
            pending += [member for _, member in each.fields]
        elif isinstance(each, List | Set):
            pending.append(each.item)
        elif isinstance(each, Map):
            pending.append(each.value)
    return value_type(node)


def _distinct(schema: pa.Schema, step: Operator) -> pa.Schema:
    if len(set(schema.names)) < len(schema.names):
        raise DeclarationError(
            f"{step.title} would emit two columns of one name: {', '.join(schema.names)}",
            hint="choose another column name",
            declared=step.place,
        )
    return schema


# Jobs -------------------------------------------------------------------------------------------


def _job(
    job: Job, cut: Fragments, schemas: Schemas, bound: BoundPStates, specs: Mapping[str, PStateSpec]
) -> JobProgram:
    terminals: list[Terminal] = []
    for step in job.terminals:
        if isinstance(step, IncrementalJoin):
            terminals += join_terminals(step, cut.number, _both(step, schemas))
        else:
            terminals.append(_terminal(step, cut, schemas, bound, specs))
    chains: dict[tuple[int, ...], TaskChain] = {}
    for chain in job.chains:
        way = zip(chain.steps, (chain.origin, *chain.steps), strict=False)
        steps = tuple(_step(each, before, schemas) for each, before in way)
        identity = (cut.number[chain.origin], *(cut.number[each] for each in chain.steps))
        fed = chains[identity].terminals if identity in chains else ()
        chains[identity] = TaskChain(
            cut.number[chain.origin],
            schemas[chain.origin],
            chains[identity].steps if identity in chains else steps,
            (*fed, cut.number[_fed(chain)]),
            identity[1:],
            reads=isinstance(chain.origin, RootOperator | StateOperator),
        )
    return JobProgram(job.index, tuple(chains.values()), tuple(terminals), fires=_fires(job))


def _step(step: Step, before: Operator, schemas: Schemas) -> BatchOperator:
    """A step of a chain, and the one before it, as tasks run it."""
    match step:
        case BatchOperator():
            return step
    return computing(step, schemas[before], schemas[step])


def _fed(chain: Chain) -> Operator:
    """What the rows of a chain are packed for: the state step, or the right side of a join."""
    last = chain.steps[-1] if chain.steps else None
    return last if isinstance(last, JoinSide) else chain.terminal


def _both(step: IncrementalJoin, schemas: Schemas) -> tuple[pa.Schema, pa.Schema]:
    """The columns of both sides of a join."""
    left, right = step.inputs
    return schemas[left], schemas[right]


def _fires(job: Job) -> bool:
    """Whether a step of the job makes rows although it reads none."""

    def climb(operator: Operator) -> bool:
        if isinstance(operator, RootOperator | StateOperator):
            return False
        if isinstance(operator, GroupAgg) and operator.fires:
            return True
        return any(climb(each) for each in operator.inputs)

    folds = any(isinstance(each, Fold) and each.fires for each in job.terminals)
    return folds or any(climb(chain.origin) for chain in job.chains)


def _terminal(
    step: StateOperator,
    cut: Fragments,
    schemas: Schemas,
    bound: BoundPStates,
    specs: Mapping[str, PStateSpec],
) -> Terminal:
    common = (cut.number[step], step.title, step.place)
    match step:
        case Aggregate():
            return _aggregate(step, common, schemas[step.inputs[0]], bound, specs)
        case Lookup(target=target):
            return lookup_terminal(step, common, schemas[step.inputs[0]], specs[target.pstate.name])
        case Process() | Fold() | WindowAgg() | Materialize() | FirstSeen():
            return _BY_ROWS[type(step)](step, common, schemas[step.inputs[0]])
        case Observe(name=name, column=column, delay_ms=delay_ms):
            return ObserveTerminal(*common, name, column, delay_ms)
        case Ask():
            from atoll.queries.bind import ask_terminal

            emitted = emitted_schema(step, schemas)
            return ask_terminal(step, common, schemas[step.inputs[0]], emitted, bound.graph, specs)
        case Changes(pstate=pstate):
            kinds = entry_keys(pstate.node, step.place)
            sole = specs[pstate.name].sole_codec()
            return ChangesTerminal(*common, pstate.name, kinds, sole, emitted_schema(step, schemas))
        case AppendTo(depot=depot):
            check_columns(step, schemas[step.inputs[0]])
            return AppendTerminal(
                *common, depot.name, depot.schema, depot.partitions, partitioner_of(depot)
            )
    raise AssertionError(f"{step} is no state step")


def lookup_terminal(
    step: Lookup, common: tuple[int, str, str], rows: pa.Schema, spec: PStateSpec
) -> LookupTerminal:
    """A lookup of a PState that is bound already.

    Raises:
        DeclarationError: When a key is no column of the rows, or of another type.
    """
    elements = elements_of(step.target, step.keys, rows, step)
    codec = spec.codec(position_of(step.target))
    name = step.target.pstate.name
    return LookupTerminal(*common, name, elements, codec, spec.initial_bytes, step.column, rows)


def _process(step: Process, common: tuple[int, str, str], rows: pa.Schema) -> ProcessTerminal:
    hides_key = step.timers is not None and step.key in step.computed
    hidden = set(step.computed) - ({step.key} if hides_key else set())
    seen = pa.schema([field for field in rows if field.name not in hidden])
    return ProcessTerminal(
        *common,
        step.function,
        process_key(step, rows),
        tuple(state.name for state in step.states),
        seen,
        step.emitted,
        step.route,
        step.on_timer,
        step.clock,
        None if step.timers is None else step.timers.name,
        hides_key,
    )


def _aggregate(
    step: Aggregate,
    common: tuple[int, str, str],
    rows: pa.Schema,
    bound: BoundPStates,
    specs: Mapping[str, PStateSpec],
) -> AggregateTerminal | LiveSessionsTerminal:
    target = step.target
    elements = elements_of(target, step.keys, rows, step)
    if isinstance(target.node, Set) or step.deletes:
        deletes: Literal["no", "entry", "all below"] = "no"
        if step.deletes:
            deletes = "entry" if target.node.leaf else "all below"
        return AggregateTerminal(
            *common, target.pstate.name, elements, _presence(step, rows), None, None, deletes
        )
    codec = bound.codec(target)
    fields = []
    for each in step.fields:
        start = 0
        for layout in codec.fields:
            stop = start + len(layout.columns)
            if layout.name == each.name:
                aggregator = bound.aggregators[step, each.name]
                fields.append(FoldedField(aggregator, layout.node, each.columns, start, stop))
            start = stop
    if step.by_session:
        *keys, start_key, end_key = elements
        return LiveSessionsTerminal(
            *common,
            target.pstate.name,
            (end_key, start_key, *keys),
            tuple(fields),
            codec,
            (),
            0,
            pa.schema([]),
            target.pstate.name,
        )
    initial = specs[target.pstate.name].initial_bytes
    return AggregateTerminal(*common, target.pstate.name, elements, tuple(fields), codec, initial)


def _presence(step: Aggregate, rows: pa.Schema) -> tuple[FoldedField, ...]:
    """What says whether an entry goes, where not all that came stay or go."""
    (each,) = step.fields
    node = step.target.node
    if not isinstance(node, Set):
        return ()
    types = input_types(step, each, rows)
    width = len(each.aggregator.state_types(node, types))
    if not width:
        return ()
    with placed(step.place):
        each.aggregator.check(node, types)
    return (FoldedField(each.aggregator, node, each.columns, 0, width),)


def _materialize(
    _: Materialize, common: tuple[int, str, str], rows: pa.Schema
) -> MaterializeTerminal:
    return MaterializeTerminal(*common, rows)


_BY_ROWS: dict[type[StateOperator], Callable[..., Terminal]] = {
    Process: _process,
    Fold: fold_terminal,
    WindowAgg: window_terminal,
    FirstSeen: first_seen_terminal,
    Materialize: _materialize,
}
"""For which the columns of their rows are enough."""
