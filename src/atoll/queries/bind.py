"""Binds a module's queries to types: all that can be wrong is found at the deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.ddl import type_in_words
from atoll.engine.binding.columns import distinct_columns
from atoll.errors import DeclarationError
from atoll.queries.answers import Asks, answered_columns, check_answer
from atoll.queries.bound import BoundAsk
from atoll.queries.parameters import Arguments
from atoll.queries.run import BoundQuery, QueryStep
from atoll.topology.graph import asked_by
from atoll.topology.operator import Operator, StateOperator
from atoll.topology.querying.bare import is_bare, known_columns, shown
from atoll.topology.querying.step import Done, InQuery, Run
from atoll.topology.usercode import check_columns, placed

if TYPE_CHECKING:
    from atoll.pstate.spec import PStateSpec
    from atoll.queries.declare import QueryGraph
    from atoll.topology.binding import Binding

Schemas = Mapping[Operator, pa.Schema]


def bind_queries(
    graphs: Mapping[str, QueryGraph], specs: Mapping[str, PStateSpec]
) -> dict[str, BoundQuery]:
    """The queries of a module, ready to be asked.

    Raises:
        DeclarationError: When a column is missing, a type does not fit, or a query is unknown.
    """
    bound = {name: _bound(graph, graphs, specs) for name, graph in graphs.items()}
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
        name: _bound(binding.queries[name], binding.queries, binding.specs) for name in asked
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


def _bound(
    graph: QueryGraph, graphs: Mapping[str, QueryGraph], specs: Mapping[str, PStateSpec]
) -> BoundQuery:
    graph.check()
    returned = graph.returned
    assert returned is not None
    schemas: dict[Operator, pa.Schema] = {}
    needed = _needed(returned.operator, *graph.always)
    steps = []
    for operator in graph.operators:
        query = InQuery([schemas[each] for each in operator.inputs], specs, graphs)
        schema, run = _without_stand_in(*operator.in_query(query))
        schemas[operator] = schema
        with placed(operator.place):
            check_columns(known_columns(schema).names)
        _check_names(schema, operator)
        if operator in needed:
            steps.append(QueryStep(operator, schema, run))
    answer = answered_columns(graph, returned, schemas[returned.operator])
    arguments = graph.operators[0]
    assert isinstance(arguments, Arguments)
    return BoundQuery(
        graph.name, graph.parameters, arguments.schema, tuple(steps), returned, answer
    )


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


def _needed(*ends: Operator) -> set[Operator]:
    """The steps that lead to some of them, and these."""
    needed: set[Operator] = set()
    waiting = list(ends)
    while waiting:
        operator = waiting.pop()
        if operator not in needed:
            needed.add(operator)
            waiting.extend(operator.inputs)
    return needed


def _without_stand_in(schema: pa.Schema, run: Run) -> Done:
    """A step whose rows have columns of their own, so that nothing has to stand in for them."""
    known = known_columns(schema)
    if is_bare(schema) or len(known) == len(schema):
        return schema, run
    return known, lambda tables, reading: run(tables, reading).select(known.names)


def _with(rows: pa.Schema, added: pa.Schema) -> pa.Schema:
    return pa.schema([*rows, *added])


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "nothing"
