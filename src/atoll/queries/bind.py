"""Binds a module's queries to types: all that can be wrong is found at the deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.columns.types import NotCertifiedError
from atoll.ddl import type_in_words
from atoll.engine.binding.columns import distinct_columns
from atoll.errors import DeclarationError
from atoll.queries import tables
from atoll.queries.answers import Asks, answered_columns, check_answer
from atoll.queries.bare import is_bare, known_columns, shown
from atoll.queries.bound import BoundAsk
from atoll.queries.parameters import Arguments
from atoll.queries.reads import asking, folding, looking_up, selecting
from atoll.queries.run import BoundQuery, QueryStep, Reading, Run
from atoll.queries.select_from import SelectFrom
from atoll.steps.columns.computing import computing, united
from atoll.steps.columns.distinct import Distinct
from atoll.steps.columns.explode import Explode
from atoll.steps.columns.join import Join
from atoll.steps.columns.select import Select
from atoll.steps.columns.union import Union
from atoll.steps.columns.where import Where
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.fold.bind import bound_fold
from atoll.steps.fold.declare import Fold
from atoll.steps.group_agg.certified import certified_agg
from atoll.steps.group_agg.declare import GroupAgg
from atoll.steps.lookup.bind import bound_lookup
from atoll.steps.lookup.declare import Lookup
from atoll.steps.materialize.declare import Materialize
from atoll.steps.rows.map_batches import MapBatches
from atoll.topology.binding import StepName
from atoll.topology.graph import asked_by
from atoll.topology.operator import BatchOperator, ColumnOperator, Operator, StateOperator
from atoll.topology.usercode import check_columns, placed

if TYPE_CHECKING:
    from atoll.pstate.spec import PStateSpec
    from atoll.queries.declare import QueryGraph
    from atoll.steps.columns.run import Computing
    from atoll.topology.binding import Binding

Schemas = Mapping[Operator, pa.Schema]


def bind_queries(
    graphs: Mapping[str, QueryGraph], specs: Mapping[str, PStateSpec]
) -> dict[str, BoundQuery]:
    """The queries of a module, ready to be asked.

    Raises:
        DeclarationError: When a column is missing, a type does not fit, or a query is unknown.
    """
    bound = {name: _Binding(graph, graphs, specs).bound() for name, graph in graphs.items()}
    _check_answers((step for graph in graphs.values() for step in graph.operators), bound)
    return bound


def asked_schema(step: StateOperator, rows: pa.Schema) -> pa.Schema:
    """The columns before, then those of the answer.

    Raises:
        DeclarationError: When two have one name.
    """
    assert isinstance(step, Asks)
    return distinct_columns(_with(rows, step.added), step)


def bound_ask(step: StateOperator, binding: Binding) -> BoundAsk:
    """A step of a topology that asks a query.

    Raises:
        DeclarationError: When there is no such query, or it gets other columns than it takes.
    """
    assert isinstance(step, Asks)
    rows = binding.rows(step)
    check_asked(step, rows, binding.queries)
    asked = asked_by([step], binding.queries)
    queries = {
        name: _Binding(binding.queries[name], binding.queries, binding.specs).bound()
        for name in asked
    }
    steps = (each for query in asked.values() for each in query.operators)
    _check_answers((step, *steps), queries)
    return BoundAsk(
        *binding.name(step),
        rows,
        binding.schemas[step],
        step.query,
        step.arguments,
        step.added,
        queries,
    )


class _Binding:
    """Binds one query."""

    def __init__(
        self,
        graph: QueryGraph,
        graphs: Mapping[str, QueryGraph],
        specs: Mapping[str, PStateSpec],
    ) -> None:
        self.graph = graph
        self.graphs = graphs
        self.specs = specs
        self.schemas: dict[Operator, pa.Schema] = {}

    def bound(self) -> BoundQuery:
        graph = self.graph
        graph.check()
        returned = graph.returned
        assert returned is not None
        needed = _needed(returned.operator)
        steps = []
        for operator in graph.operators:
            schema, run = _without_stand_in(*self._step(operator))
            self.schemas[operator] = schema
            with placed(operator.place):
                check_columns(known_columns(schema).names)
            _check_names(schema, operator)
            if operator in needed:
                steps.append(QueryStep(operator, schema, run))
        answer = answered_columns(graph, returned, self.schemas[returned.operator])
        arguments = graph.operators[0]
        assert isinstance(arguments, Arguments)
        return BoundQuery(
            graph.name, graph.parameters, arguments.schema, tuple(steps), returned, answer
        )

    def _step(self, operator: Operator) -> tuple[pa.Schema, Run]:
        inputs = [self.schemas[each] for each in operator.inputs]
        match operator:
            case Arguments(schema=schema):
                return schema, _same
            case BatchOperator():
                return operator.schema(inputs), _batches(operator)
            case StateOperator() if not isinstance(operator, Materialize):
                return self._state_step(operator, inputs[0])
            case ColumnOperator():
                return _column_step(operator, inputs)
        return inputs[0], _same

    def _state_step(self, operator: StateOperator, rows: pa.Schema) -> tuple[pa.Schema, Run]:
        name = StepName(0, operator.title, operator.place)
        match operator:
            case Lookup(target=target):
                emitted = operator.schema([rows])
                spec = self.specs[target.pstate.name]
                bound = bound_lookup(operator, name, rows, spec, ())
                return emitted, looking_up(bound, spec, emitted)
            case Fold():
                fold = bound_fold(operator, name, rows)
                return fold.emitted, folding(fold)
            case SelectFrom(pstate=pstate):
                emitted = _with(rows, operator.added)
                return emitted, selecting(operator, self.specs[pstate.name], emitted)
            case Asks():
                check_asked(operator, rows, self.graphs)
                emitted = _with(rows, operator.added)
                return emitted, asking(operator, emitted)
        raise AssertionError(operator)


def check_asked(step: Asks, rows: pa.Schema, queries: Mapping[str, QueryGraph]) -> None:
    """Hold that the query exists, and gets what it takes."""
    asked = queries.get(step.query)
    if asked is None:
        raise DeclarationError(
            f"the module has no query {step.query!r}",
            hint="it has " + (", ".join(queries) or "none"),
            declared=step.place,
        )
    given = dict(step.arguments)
    if set(given) != set(asked.parameters):
        raise DeclarationError(
            f"query {step.query!r} takes {_listed(asked.parameters)}, not {_listed(given)}",
            hint="name for each parameter the column that gives it",
            declared=step.place,
        )
    first = asked.operators[0]
    assert isinstance(first, Arguments)
    for name, column in given.items():
        if column not in rows.names or rows.field(column).type != first.schema.field(name).type:
            found = type_in_words(rows.field(column).type) if column in rows.names else "missing"
            raise DeclarationError(
                f"query {step.query!r} takes {name!r} as "
                f"{type_in_words(first.schema.field(name).type)}, and the column {column!r} is "
                f"{found}",
                hint=f"the rows before have {shown(rows)}",
                declared=step.place,
            )
    asked.check()


def _check_answers(steps: Iterable[Operator], queries: Mapping[str, BoundQuery]) -> None:
    """Hold that each step that asks declares columns which the answer fills."""
    for step in steps:
        if isinstance(step, Asks):
            asked = queries[step.query]
            check_answer(step, asked.returned, asked.answers)


def _check_names(schema: pa.Schema, step: Operator) -> None:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise DeclarationError(
            f"{step.title} would emit two columns of one name: {twice[0]}",
            hint='rename one before: select("k", "v AS other_v")',
            declared=step.place,
        )


def _needed(end: Operator) -> set[Operator]:
    """The steps that lead to one of them, and itself."""
    needed: set[Operator] = set()
    waiting = [end]
    while waiting:
        operator = waiting.pop()
        if operator not in needed:
            needed.add(operator)
            waiting.extend(operator.inputs)
    return needed


def _same(tables: list[pa.Table], _reading: Reading) -> pa.Table:
    return tables[0]


def _without_stand_in(schema: pa.Schema, run: Run) -> tuple[pa.Schema, Run]:
    """A step whose rows have columns of their own, so that nothing has to stand in for them."""
    known = known_columns(schema)
    if is_bare(schema) or len(known) == len(schema):
        return schema, run
    return known, lambda tables, reading: run(tables, reading).select(known.names)


def _batches(operator: BatchOperator) -> Run:
    seen_whole = isinstance(operator, MapBatches)

    def run(tables: list[pa.Table], _reading: Reading) -> pa.Table:
        (rows,) = tables
        if seen_whole and is_bare(rows.schema):
            rows = rows.select([])
        batches = operator.run(iter(rows.to_batches()), rows.schema)
        return pa.Table.from_batches(list(batches), operator.schema([rows.schema]))

    return run


def _column_step(operator: ColumnOperator, inputs: list[pa.Schema]) -> tuple[pa.Schema, Run]:
    match operator:
        case Union():
            return _union(operator, inputs)
        case GroupAgg():
            return _aggregation(operator, inputs[0])
        case Join():
            return tables.joined_schema(operator, *inputs), (
                lambda sides, _: tables.join(operator, *sides)
            )
        case Distinct():
            step = _computed(operator, inputs[0])
            made = _batches(step)
            return step.chosen, lambda given, reading: tables.distinct(made(given, reading))
        case Select() | WithColumns() | Where() | Explode():
            step = _computed(operator, inputs[0])
            return step.chosen, _batches(step)
    return inputs[0], _same


def _computed(operator: ColumnOperator, rows: pa.Schema) -> Computing:
    """A step that computes columns.

    Raises:
        DeclarationError: When one of its expressions is not certified.
    """
    try:
        return computing(operator, rows)
    except NotCertifiedError as error:
        raise _needs_spark(operator, error) from None


def _needs_spark(operator: ColumnOperator, error: NotCertifiedError) -> DeclarationError:
    return DeclarationError(
        f"{operator.title} computes what only Spark can, and a query runs without it: {error}",
        hint="write it in other words, or compute it in Python: map, where(lambda row: ...); "
        'aggregates of atoll.agg are computed anywhere: agg(total=agg.sum("v"))',
        declared=operator.place,
    )


def _aggregation(operator: GroupAgg, rows: pa.Schema) -> tuple[pa.Schema, Run]:
    """Spark SQL's aggregates, which a fold computes."""
    try:
        agg = certified_agg(operator, rows)
    except NotCertifiedError as error:
        raise _needs_spark(operator, error) from None
    runs: list[Run] = []
    if agg.before is not None:
        step = _computed(agg.before, rows)
        rows = step.chosen
        runs.append(_batches(step))
    fold = bound_fold(agg.fold, StepName(0, operator.title, operator.place), rows)
    after = _computed(agg.after, fold.emitted)
    runs += [folding(fold), _batches(after)]

    def run(given: list[pa.Table], reading: Reading) -> pa.Table:
        for each in runs:
            given = [each(given, reading)]
        return given[0]

    return after.chosen, run


def _union(operator: Union, inputs: list[pa.Schema]) -> tuple[pa.Schema, Run]:
    """The rows of all, columns by name."""
    schema = united(operator, inputs)
    aligned = [_batches(computing(operator, each, schema)) for each in inputs]

    def run(given: list[pa.Table], reading: Reading) -> pa.Table:
        parts = zip(aligned, given, strict=True)
        return pa.concat_tables([each([table], reading) for each, table in parts])

    return schema, run


def _with(rows: pa.Schema, added: pa.Schema) -> pa.Schema:
    return pa.schema([*rows, *added])


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "nothing"
