"""Answers a query: its steps one after the other, over views that all show one moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.errors import QueryError, QueryTimeoutError
from atoll.python_values import python_rows
from atoll.topology.rows import batch_from_rows

if TYPE_CHECKING:
    from atoll.pstate.view import PStateView
    from atoll.queries.declare import Returned
    from atoll.schema import Node
    from atoll.topology.operator import Operator
    from atoll.topology.querying.step import Run

_DEPTH_MAX = 50


class Reading:
    """What the steps of one call share.

    Args:
        queries: The module's queries, by name.
        view: Gives a PState as of the moment that the call sees.
        timeout_seconds: After which it ends.
    """

    def __init__(
        self,
        queries: Mapping[str, BoundQuery],
        view: Callable[[str], PStateView],
        timeout_seconds: float,
    ) -> None:
        """The time begins now."""
        self.queries = queries
        self.view = view
        self.timeout_seconds = timeout_seconds
        self.until = time.monotonic() + timeout_seconds
        self.cancelled = threading.Event()
        self._depth = 0
        self._known: dict[Any, list[dict[str, Any]]] = {}

    def at(self, view: Callable[[str], PStateView]) -> Reading:
        """The same call at another moment, with the time that is left; itself when it is the same.

        Nothing that it knows counts there.
        """
        if view == self.view:
            return self
        other = Reading(self.queries, view, self.timeout_seconds)
        other.until, other.cancelled = self.until, self.cancelled
        return other

    def check(self) -> None:
        """Between two steps, or two reads.

        Raises:
            QueryTimeoutError: When the time is over, or nobody waits any more.
        """
        if self.cancelled.is_set() or time.monotonic() > self.until:
            raise QueryTimeoutError(
                f"the query took longer than {self.timeout_seconds:g} s",
                hint="read less in one call, or give it more time: timeout_seconds=60",
            )

    def checked(self, values: Iterator[Any]) -> Iterator[Any]:
        """The same values, with a look at the time now and then."""
        for number, value in enumerate(values):
            if not number % 256:
                self.check()
            yield value

    def ask(self, name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows that a query answers with; an answer known in this call is not sought again.

        Raises:
            QueryError: When queries ask each other without an end.
        """
        known = (name, repr(arguments))
        if known in self._known:
            return self._known[known]
        if self._depth >= _DEPTH_MAX:
            raise QueryError(
                f"query {name!r} is asked by queries {_DEPTH_MAX} deep",
                hint="a query that asks itself needs a case in which it does not",
                query=name,
            )
        self._depth += 1
        try:
            answer = self._known[known] = self.queries[name].rows(arguments, self)
        finally:
            self._depth -= 1
        return answer


@dataclass(frozen=True)
class QueryStep:
    """A step that knows its columns, and how it is done."""

    operator: Operator
    schema: pa.Schema
    run: Run


@dataclass(frozen=True)
class BoundQuery:
    """A query ready to be asked."""

    name: str
    parameters: Mapping[str, Node]
    arguments: pa.Schema
    steps: tuple[QueryStep, ...]
    """Those that the answer needs, each after its inputs."""
    returned: Returned
    answers: pa.Schema
    """The columns of the rows that it answers with."""

    def rows(self, arguments: Mapping[str, Any], reading: Reading) -> list[dict[str, Any]]:
        """The rows that are returned, of the columns that are.

        Raises:
            QueryError: When there are several and one is returned.
            UserCodeError: When a function of the user's raises.
            QueryTimeoutError: When the time is over.
        """
        first = batch_from_rows([arguments], self.arguments, "query", self.returned.place)
        done: dict[Operator, pa.Table] = {}
        for step in self.steps:
            reading.check()
            inputs = [done[each] for each in step.operator.inputs]
            done[step.operator] = step.run(inputs or [pa.Table.from_batches([first])], reading)
        table = done[self.returned.operator].select(self.answers.names)
        if self.returned.rows == "one" and table.num_rows > 1:
            raise QueryError(
                f"query {self.name!r} came to {table.num_rows} rows, and it returns one",
                hint='aggregate them, or return all of them: returns(rows="all")',
                query=self.name,
                declared=self.returned.place,
            )
        return python_rows(table)

    def answer(self, rows: list[dict[str, Any]]) -> Any:
        """What a caller gets of these rows."""
        column = self.returned.column
        values: list[Any] = rows if column is None else [row[column] for row in rows]
        if self.returned.rows == "all":
            return values
        return values[0] if values else None
