"""The type ``sql``: see the class."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Effect, Event, Given, Result, State
from atoll.runtime.problems import Problem, pointer
from atoll.runtime.templates import check_template, expression_in, fill

_SKIPPED = r"'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|::"
"""What holds no parameter; one that is never closed goes to the end, so each is passed once."""

_PART = re.compile(
    rf"(?P<skipped>{_SKIPPED})|:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<end>;)", re.DOTALL
)


class SqlParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of an sql.

    Args:
        database: The name of a database that the operator has configured, with its address,
            driver and password: none of these is in a definition.
        statement: One statement; ``:name`` stands for a parameter.
        parameters: Per name its value: a constant, or ``${path}`` for a value of the event.
    """

    database: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
    statement: Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)]
    parameters: Annotated[dict[str, Any], msgspec.Meta(max_length=1_000)] = {}


class Sql(ActorType[SqlParams]):
    """Runs a statement for every event, after its microbatch has committed, and emits the answer.

    The statement is the definition's, never the event's; values of events are only ever bound to
    its parameters. The answer is `{"statement": ..., "success": true, "data": [row, ...]}` for a
    statement that gives rows, without ``data`` for another, and `{"statement": ..., "success":
    false, "error": ...}` when it failed. A parameter that the event has no value for is a failure,
    and nothing is run. An effect of the kind ``sql``, with ``database``, ``statement`` and
    ``parameters``.

    This is what Coral's `cassandra` did, for any database: `seeds`, `port`, `keyspace`, `user` and
    `password` became the name of a configured database, and the event's `query` a statement with
    parameters, since a query that comes in an event is anybody's.
    """

    name = "sql"
    params = SqlParams
    effect = "sql"
    example: ClassVar[dict[str, Any]] = {
        "database": "shop",
        "statement": "insert into orders (id, total) values (:id, :total)",
        "parameters": {"id": "${order.id}", "total": "${order.total}"},
    }

    def check(self, params: SqlParams) -> Iterator[Problem]:
        """One statement, whose parameters are those given."""
        yield from check_template(params.parameters, "/parameters")
        names, several = parameters_in(params.statement)
        if several:
            what = "it holds more than one statement"
            yield Problem("invalid-actor", "/statement", what, "use an actor for each")
        for name in sorted(names - params.parameters.keys()):
            what = f"the statement's parameter {name!r} is missing"
            yield Problem("invalid-actor", "/parameters", what, f"give {name!r}")
        for name, value in params.parameters.items():
            path = "/parameters" + pointer(name)
            if name not in names:
                what = "the statement has no such parameter"
                yield Problem("invalid-actor", path, what, "leave it out")
            if isinstance(value, dict | list):
                yield Problem(
                    "invalid-actor", path, "it is no single value", "give a text or number"
                )

    def trigger(self, params: SqlParams, state: State, event: Event, given: Given) -> Result:
        """A statement with its values."""
        values = {}
        for name, value in params.parameters.items():
            found = fill(value, event)
            asked = isinstance(value, str) and expression_in(value) is not None
            if isinstance(found, dict | list) or (asked and found is None):
                return Result(state, failure=f"the event has no value for {name!r}")
            values[name] = found
        request = {
            "database": params.database,
            "statement": params.statement,
            "parameters": values,
        }
        return Result(state, (), (Effect("sql", request, given.key),))

    def answered(
        self, params: SqlParams, effect: Effect, outcome: dict[str, Any]
    ) -> tuple[Event, ...]:
        """The answer: ``rows`` (objects, or null for none), or ``error``."""
        statement = params.statement
        if "error" in outcome:
            answer = {"statement": statement, "success": False, "error": str(outcome["error"])}
        elif outcome.get("rows") is None:
            answer = {"statement": statement, "success": True}
        else:
            answer = {"statement": statement, "success": True, "data": list(outcome["rows"])}
        return (answer,)


def rewritten(
    statement: str, parameter: Callable[[str], str], other: Callable[[str], str] = str
) -> str:
    """The statement with its parameters written in another way.

    Args:
        statement: One statement.
        parameter: How to write the parameter of a name.
        other: How to write all that is no parameter, piece by piece.
    """
    found: list[str] = []
    at = 0
    for part in _PART.finditer(statement):
        if part["name"]:
            found += other(statement[at : part.start()]), parameter(part["name"])
            at = part.end()
    return "".join((*found, other(statement[at:])))


def parameters_in(statement: str) -> tuple[set[str], bool]:
    """The names of its parameters, and whether something follows a semicolon.

    Quoted texts, quoted names, comments and casts (``::``) hold none.
    """
    names: set[str] = set()
    ended = several = False
    at = 0
    for part in _PART.finditer(statement):
        several |= ended and bool(statement[at : part.start()].strip())
        at = part.end()
        if part["name"]:
            names.add(part["name"])
        ended |= bool(part["end"])
        several |= (
            ended and not part["end"] and not (part["skipped"] or "").startswith(("--", "/*"))
        )
    return names, several or (ended and bool(statement[at:].strip()))
