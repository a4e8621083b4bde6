"""A step of a query: its columns, and how it is done.

Every operator that a query may have says both of itself (``in_query``), so that whoever binds a
query knows of no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from atoll.topology.querying.bare import is_bare

if TYPE_CHECKING:
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.view import PStateView


class Reading(Protocol):
    """What the steps of one call share."""

    @property
    def queries(self) -> Mapping[str, Any]:
        """The module's queries as they are bound, by name."""

    @property
    def view(self) -> Callable[[str], PStateView]:
        """Gives a PState as of the moment that the call sees."""

    def check(self) -> None:
        """Between two steps, or two reads.

        Raises:
            QueryTimeoutError: When the time is over, or nobody waits any more.
        """

    def checked(self, values: Iterator[Any]) -> Iterator[Any]:
        """The same values, with a look at the time now and then."""

    def ask(self, name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows that another query answers with."""


Run = Callable[[list[pa.Table], Reading], pa.Table]
"""From the rows of a step's inputs to those that come out."""

Done = tuple[pa.Schema, Run]
"""The columns that come out of a step, and how it is done."""


@dataclass(frozen=True)
class InQuery:
    """What a step is told when its query is bound.

    Attributes:
        inputs: The columns of its inputs.
        specs: The module's PStates, by name.
        queries: The module's queries, by name.
    """

    inputs: list[pa.Schema]
    specs: Mapping[str, PStateSpec]
    queries: Mapping[str, Any]

    @property
    def rows(self) -> pa.Schema:
        """The columns of its first input."""
        return self.inputs[0]


def as_they_are(tables: list[pa.Table], _reading: Reading) -> pa.Table:
    """The rows of the only input."""
    return tables[0]


class InBatches(Protocol):
    """A step over batches."""

    @property
    def sees_batches(self) -> bool:
        """Whether its user's function sees whole batches, and not their rows."""

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The columns that come out."""

    def run(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Turn batches into batches."""


def in_batches(operator: InBatches) -> Run:
    """The rows as a step over batches makes them."""

    def run(tables: list[pa.Table], _reading: Reading) -> pa.Table:
        (rows,) = tables
        if operator.sees_batches and is_bare(rows.schema):
            rows = rows.select([])
        batches = operator.run(iter(rows.to_batches()), rows.schema)
        return pa.Table.from_batches(list(batches), operator.schema([rows.schema]))

    return run


def one_after_the_other(runs: Sequence[Run]) -> Run:
    """Several ways of one input each, as one."""

    def run(tables: list[pa.Table], reading: Reading) -> pa.Table:
        for each in runs:
            tables = [each(tables, reading)]
        return tables[0]

    return run
