"""Binds a topology to types: what was declared by name becomes a program that tasks can run.

Runs once per deployment, on the driver, with the column types that the engine resolved. All that
can be wrong about types is found here, before the first record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.aggregates.base import Aggregator
from atoll.codec.arrow_types import arrow_type, value_type
from atoll.codec.opaque import PACKING
from atoll.codec.values import LeafCodec, leaf_codec
from atoll.dataflow import operators as op
from atoll.dataflow.declared import PStateDeclaration, Target
from atoll.dataflow.fragments import Fragments, Job
from atoll.dataflow.graph import Graph
from atoll.dataflow.usercode import placed
from atoll.errors import DeclarationError
from atoll.module import entry_keys
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Scalar, Set, Struct
from atoll.storage.places import Places
from atoll.tasks.align import Align
from atoll.tasks.appending import partitioner_of
from atoll.tasks.bind_fold import fold_schema, fold_terminal
from atoll.tasks.bind_keys import column_type, elements_of, process_key
from atoll.tasks.bind_windows import window_schema, window_specs, window_terminal
from atoll.tasks.first_seen import first_seen_schema, first_seen_spec, first_seen_terminal
from atoll.tasks.fitting import check_columns
from atoll.tasks.program import (
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
from atoll.tasks.provenance import tracked_operators
from atoll.tasks.repeats import reported_once
from atoll.tasks.timed_terminals import LiveSessionsTerminal, ObserveTerminal

if TYPE_CHECKING:
    from atoll.dataflow.operators import AggregateField

__all__ = ["bind", "emitted_schema", "lookup_terminal"]

Schemas = Mapping[op.Operator, pa.Schema]
_Position = tuple[str, ...]
"""The struct fields on the way to a leaf: which leaf of a PState it is."""
_FIELD_NAME = Scalar("str")


@dataclass(frozen=True)
class _Bound:
    """The aggregates of a topology, ready to run, and the leaf codecs that they lead to."""

    graph: Graph
    aggregators: dict[tuple[op.Aggregate, str | None], Aggregator]
    codecs: dict[str, dict[_Position, LeafCodec]]

    def codec(self, target: Target) -> LeafCodec:
        """The codec of the leaf at a target."""
        known = self.codecs.get(target.pstate.name, {}).get(_position(target))
        return known or leaf_codec(target.node)


def bind(
    graph: Graph,
    cut: Fragments,
    schemas: Schemas,
    places: Places,
    history_microbatches: int,
    mirrors: Mapping[str, PStateSpec] | None = None,
) -> Program:
    """The program of a topology.

    Args:
        graph: The topology.
        cut: Its jobs.
        schemas: The columns after every operator.
        places: Where its tasks find things.
        history_microbatches: How many microbatches back its state stays readable directly.
        mirrors: The PStates of other modules, by ``module.name``.

    Raises:
        DeclarationError: When a key or an aggregate does not fit the types that reach it.
    """
    bound = _bind_aggregates(graph, schemas)
    specs = {}
    for step in graph.state_operators:
        if isinstance(step, op.WindowAgg):
            specs.update(window_specs(step, schemas[step.inputs[0]]))
        if isinstance(step, op.FirstSeen):
            specs[step.state.name] = first_seen_spec(step, schemas[step.inputs[0]])
    for name, declared in graph.pstates.items():
        if name in specs:
            continue
        with placed(declared.place):
            specs[name] = pstate_spec(declared, bound.codecs.get(name, {}))
    mirrored = {name: spec for name, spec in (mirrors or {}).items() if name in _mirrored(graph)}
    jobs = tuple(_job(job, cut, schemas, bound, specs | mirrored) for job in cut.jobs)
    if graph.dead_letter is not None:
        jobs = reported_once(jobs, cut)
    depots = {
        cut.number[source]: (source.depot.name, source.depot.schema) for source in graph.sources
    }
    for each in graph.operators:
        if isinstance(each, op.Tick):
            depots[cut.number[each]] = (each.tick.name, each.tick.schema)
    return Program(
        graph.module,
        graph.topology,
        places,
        specs,
        jobs,
        depots,
        history_microbatches,
        tracked=frozenset(cut.number[each] for each in tracked_operators(graph)),
        mirrors=mirrored,
        dead_letter=None if graph.dead_letter is None else graph.dead_letter.name,
    )


def _mirrored(graph: Graph) -> set[str]:
    """The mirrored PStates that a topology looks up in."""
    return {
        step.target.pstate.name
        for step in graph.state_operators
        if isinstance(step, op.Lookup) and step.target.pstate.mirrored
    }


def emitted_schema(step: op.StateOperator, schemas: Schemas) -> pa.Schema:
    """The columns of the rows that a state step emits.

    Raises:
        DeclarationError: When two columns would have one name.
    """
    match step:
        case op.Process(emitted=emitted) if emitted is not None:
            return emitted
        case op.Lookup(target=target, column=column):
            value = pa.field(column, value_type(target.node))
            return _distinct(schemas[step.inputs[0]].append(value), step)
        case op.Changes(pstate=pstate, key_names=names):
            kinds = entry_keys(pstate.node, step.place)
            fields = [pa.field(n, arrow_type(k)) for n, k in zip(names, kinds, strict=True)]
            value_kind = _changed_type(pstate)
            fields += [pa.field("old", value_kind), pa.field("new", value_kind)]
            return _distinct(pa.schema(fields), step)
        case op.Fold():
            return fold_schema(step, schemas[step.inputs[0]])
        case op.WindowAgg():
            return window_schema(step, schemas[step.inputs[0]])
        case op.FirstSeen():
            return first_seen_schema(step, schemas[step.inputs[0]])
        case op.Ask(added=added):
            return _distinct(pa.schema([*schemas[step.inputs[0]], *added]), step)
        case op.Materialize():
            return schemas[step.inputs[0]]
    return pa.schema([])


def _changed_type(pstate: PStateDeclaration) -> pa.DataType:
    node = pstate.node
    while hasattr(node, "value"):
        node = node.value
    return pa.bool_() if isinstance(node, Set) else value_type(node)


def _distinct(schema: pa.Schema, step: op.Operator) -> pa.Schema:
    if len(set(schema.names)) < len(schema.names):
        raise DeclarationError(
            f"{step.title} would emit two columns of one name: {', '.join(schema.names)}",
            hint="choose another column name",
            declared=step.place,
        )
    return schema


# Aggregates ---------------------------------------------------------------------------------------


def _bind_aggregates(graph: Graph, schemas: Schemas) -> _Bound:
    aggregators: dict[tuple[op.Aggregate, str | None], Aggregator] = {}
    finishers: dict[tuple[PStateDeclaration, _Position], dict[str, str]] = {}
    nodes: dict[tuple[PStateDeclaration, _Position], Target] = {}
    for step in graph.state_operators:
        if not isinstance(step, op.Aggregate) or isinstance(step.target.node, Set) or step.deletes:
            continue
        leaf = (step.target.pstate, _position(step.target))
        nodes[leaf] = step.target
        known = finishers.setdefault(leaf, {})
        for each in step.fields:
            aggregator, finish = _bind_field(step, each, schemas[step.inputs[0]])
            aggregators[step, each.name] = aggregator
            name = each.name or ""
            if known.setdefault(name, finish) != finish:
                raise DeclarationError(
                    f"{step.target.text} is folded by aggregates that keep different state: "
                    f"{known[name]} and {finish}",
                    hint="give each aggregate a place of its own",
                    declared=step.place,
                )
    codecs: dict[str, dict[_Position, LeafCodec]] = {}
    for (pstate, position), words in finishers.items():
        kept = {name: word for name, word in words.items() if word != "plain"}
        codec = leaf_codec(nodes[pstate, position].node, kept)
        codecs.setdefault(pstate.name, {})[position] = codec
        _check_other_writers(graph, pstate, codec)
    return _Bound(graph, aggregators, codecs)


def _bind_field(
    step: op.Aggregate, each: AggregateField, rows: pa.Schema
) -> tuple[Aggregator, str]:
    node = step.target.node
    if each.name is not None:
        assert isinstance(node, Struct)
        node = node.get(each.name)  # type: ignore[assignment]  # checked when declared
    types = _input_types(step, each, rows)
    try:
        aggregator = each.aggregator.bind(node, types, PACKING)
        finish = each.aggregator.finishers(node, types).get("", "plain")
    except DeclarationError as error:
        place = step.target.text + ("" if each.name is None else f".{each.name}")
        raise DeclarationError(
            f"{place}: {error.message}",
            hint=error.hint,
            **{**error.context, "declared": step.place},
        ) from None
    return aggregator, finish


def _input_types(step: op.Aggregate, each: AggregateField, rows: pa.Schema) -> list[pa.DataType]:
    return [
        pa.bool_() if column is None else column_type(rows, column, step) for column in each.columns
    ]


def _check_other_writers(graph: Graph, pstate: PStateDeclaration, codec: LeafCodec) -> None:
    if not codec.hidden and pstate.initial is None:
        return
    if codec.hidden and pstate.initial is not None:
        raise DeclarationError(
            f"PState {pstate.name!r} has an initial value, but its aggregate keeps more than that",
            hint="leave initial= out",
            declared=pstate.place,
        )
    for step in graph.writers(pstate):
        if codec.hidden and isinstance(step, op.Process):
            raise DeclarationError(
                f"process cannot write {pstate.name!r}: its aggregate keeps more than the value",
                hint="use a PState of its own for each",
                declared=step.place,
            )


def _position(target: Target) -> _Position:
    return tuple(part.text for part in target.parts if not part.is_key)


# Jobs -------------------------------------------------------------------------------------------


def _job(
    job: Job, cut: Fragments, schemas: Schemas, bound: _Bound, specs: Mapping[str, PStateSpec]
) -> JobProgram:
    terminals = tuple(_terminal(step, cut, schemas, bound, specs) for step in job.terminals)
    chains: dict[tuple[int, ...], TaskChain] = {}
    for chain in job.chains:
        steps = tuple(
            Align(each.inputs, each.place, schemas[each]) if isinstance(each, op.Union) else each
            for each in chain.steps
        )
        identity = (cut.number[chain.origin], *(cut.number[each] for each in chain.steps))
        fed = chains[identity].terminals if identity in chains else ()
        chains[identity] = TaskChain(
            cut.number[chain.origin],
            schemas[chain.origin],
            chains[identity].steps if identity in chains else steps,
            (*fed, cut.number[chain.terminal]),
            identity[1:],
        )
    return JobProgram(job.index, tuple(chains.values()), terminals, fires=_fires(job))


def _fires(job: Job) -> bool:
    """Whether a step of the job makes rows although it reads none."""

    def climb(operator: op.Operator) -> bool:
        if isinstance(operator, op.RootOperator | op.StateOperator):
            return False
        if isinstance(operator, op.GroupAgg) and operator.fires:
            return True
        return any(climb(each) for each in operator.inputs)

    folds = any(isinstance(each, op.Fold) and each.fires for each in job.terminals)
    return folds or any(climb(chain.origin) for chain in job.chains)


def _terminal(
    step: op.StateOperator,
    cut: Fragments,
    schemas: Schemas,
    bound: _Bound,
    specs: Mapping[str, PStateSpec],
) -> Terminal:
    common = (cut.number[step], step.title, step.place)
    match step:
        case op.Aggregate():
            return _aggregate(step, common, schemas[step.inputs[0]], bound, specs)
        case op.Lookup(target=target):
            return lookup_terminal(step, common, schemas[step.inputs[0]], specs[target.pstate.name])
        case op.Process() | op.Fold() | op.WindowAgg() | op.Materialize() | op.FirstSeen():
            return _BY_ROWS[type(step)](step, common, schemas[step.inputs[0]])
        case op.Observe(name=name, column=column, delay_ms=delay_ms):
            return ObserveTerminal(*common, name, column, delay_ms)
        case op.Ask():
            from atoll.tasks.queries.bind import ask_terminal

            emitted = emitted_schema(step, schemas)
            return ask_terminal(step, common, schemas[step.inputs[0]], emitted, bound.graph, specs)
        case op.Changes(pstate=pstate):
            kinds = entry_keys(pstate.node, step.place)
            sole = specs[pstate.name].sole_codec()
            return ChangesTerminal(*common, pstate.name, kinds, sole, emitted_schema(step, schemas))
        case op.AppendTo(depot=depot):
            check_columns(step, schemas[step.inputs[0]])
            return AppendTerminal(
                *common, depot.name, depot.schema, depot.partitions, partitioner_of(depot)
            )
    raise AssertionError(f"{step} is no state step")


def lookup_terminal(
    step: op.Lookup, common: tuple[int, str, str], rows: pa.Schema, spec: PStateSpec
) -> LookupTerminal:
    """A lookup of a PState that is bound already.

    Raises:
        DeclarationError: When a key is no column of the rows, or of another type.
    """
    elements = elements_of(step.target, step.keys, rows, step)
    codec = spec.codec(_position(step.target))
    name = step.target.pstate.name
    return LookupTerminal(*common, name, elements, codec, spec.initial_bytes, step.column, rows)


def _process(step: op.Process, common: tuple[int, str, str], rows: pa.Schema) -> ProcessTerminal:
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
    step: op.Aggregate,
    common: tuple[int, str, str],
    rows: pa.Schema,
    bound: _Bound,
    specs: Mapping[str, PStateSpec],
) -> AggregateTerminal | LiveSessionsTerminal:
    target = step.target
    elements = elements_of(target, step.keys, rows, step)
    if isinstance(target.node, Set) or step.deletes:
        return AggregateTerminal(
            *common, target.pstate.name, elements, _presence(step, rows), None, None, step.deletes
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


def _presence(step: op.Aggregate, rows: pa.Schema) -> tuple[FoldedField, ...]:
    """What says whether an entry goes, where not all that came stay or go."""
    (each,) = step.fields
    node = step.target.node
    if not isinstance(node, Set):
        return ()
    types = _input_types(step, each, rows)
    width = len(each.aggregator.state_types(node, types))
    if not width:
        return ()
    with placed(step.place):
        each.aggregator.check(node, types)
    return (FoldedField(each.aggregator, node, each.columns, 0, width),)


def _materialize(
    _: op.Materialize, common: tuple[int, str, str], rows: pa.Schema
) -> MaterializeTerminal:
    return MaterializeTerminal(*common, rows)


_BY_ROWS: dict[type[op.StateOperator], Callable[..., Terminal]] = {
    op.Process: _process,
    op.Fold: fold_terminal,
    op.WindowAgg: window_terminal,
    op.FirstSeen: first_seen_terminal,
    op.Materialize: _materialize,
}
"""For which the columns of their rows are enough."""
