"""Column steps inside a chain: their expressions are all certified.

A row on which one of them fails is found as a careful attempt finds others: the rows are halved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from atoll.columns.tree import Column, Node, RowError, Rows
from atoll.engine.exchange.careful import FIRST, Refusing, sift
from atoll.errors import AtollError, DataError
from atoll.steps.columns.guards import Guarded
from atoll.topology.operator import BatchOperator
from atoll.topology.rows import row_at, with_origins, without_origins

if TYPE_CHECKING:
    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Computing(BatchOperator):
    """Computes expressions of each row.

    Attributes:
        nodes: What computes them.
        guarded: How they are told of, in the same order.
        chosen: The columns after the step.
    """

    runs_own_code: ClassVar[bool] = True
    rejects_carefully: ClassVar[bool] = True
    nodes: tuple[Node, ...]
    guarded: Guarded
    chosen: pa.Schema

    @property
    def title(self) -> str:
        """As users call the step."""
        return self.guarded.title

    @property
    def fails(self) -> bool:
        """Whether there are rows of which it cannot be computed."""
        return any(each.fails for each in self.nodes)

    @property
    def computes(self) -> bool:
        """Whether it does more than take columns as they are."""
        return not all(isinstance(each, Column) for each in self.nodes)

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:  # the step's own
        """The step's."""
        return self.chosen

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,  # known when it was made
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        for batch in batches:
            try:
                yield self._made(batch)
            except RowError:
                kept = batch.filter(pa.array(self._computable(batch, rejects)))
                yield self._made(kept)

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def _values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        rows = Rows(batch)
        return [each.of(rows) for each in self.nodes]

    def _computable(self, batch: pa.RecordBatch, rejects: Rejects | None) -> list[bool]:
        """For each row whether it can be computed; those that cannot are refused."""
        refusing = Refusing(self.guarded, rejects or FIRST)
        plain, _ = without_origins(batch)
        table = pa.Table.from_batches([batch])
        kept = np.ones(batch.num_rows, np.bool_)

        def take(first: int, stop: int) -> AtollError | None:
            part = plain.slice(first, stop - first)
            for at, node in enumerate(self.nodes):
                try:
                    node.of(Rows(part))
                except RowError as error:
                    return self._error(at, part, error)
            return None

        for position, error in sift(0, batch.num_rows, take):
            refusing.refuse(table, position, error)
            kept[position] = False
        return [bool(each) for each in kept]

    def _error(self, at: int, part: pa.RecordBatch, error: RowError) -> DataError:
        if part.num_rows > 1:  # it is asked again about each half
            return DataError(error.condition)
        names = list(self.guarded.guards[at].columns)
        row: Any = row_at(part.select(names), 0) if names else {}
        return self.guarded.error(at, row, str(error))


@dataclass(frozen=True, eq=False)
class Sieving(Computing):
    """Keeps the rows for which the condition is true."""

    makes: ClassVar[Makes] = "at most one"

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plain, _ = without_origins(batch)
        (condition,) = self._values(plain)
        return batch.filter(condition)


@dataclass(frozen=True, eq=False)
class Projecting(Computing):
    """The columns that it computes."""

    makes: ClassVar[Makes] = "one"

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plain, origins = without_origins(batch)
        return with_origins(_of_types(self._values(plain), self.chosen), origins)


@dataclass(frozen=True, eq=False)
class Exploding(Computing):
    """A row per element of an array or entry of a map, beside other columns.

    Attributes:
        kept: The places of those columns.
        outer: Whether a row stays that has no element, with null.
    """

    makes: ClassVar[Makes] = "any"
    kept: tuple[int, ...]
    outer: bool

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        plain, origins = without_origins(batch)
        (collections,) = self._values(plain)
        rows, places = _elements(collections, outer=self.outer)
        columns = [plain.column(at).take(rows) for at in self.kept]
        if pa.types.is_map(collections.type):
            columns += [collections.keys.take(places), collections.items.take(places)]
        else:
            columns.append(collections.values.take(places))
        made = _of_types(columns, self.chosen)
        return with_origins(made, None if origins is None else origins.take(rows))


def _elements(collections: pa.Array, *, outer: bool) -> tuple[pa.Array, pa.Array]:
    """Of each element, in order, the row that it is of and its place; null where there is none."""
    ends = collections.offsets.to_numpy().astype(np.int64)
    sizes = np.where(collections.is_null().to_numpy(zero_copy_only=False), 0, np.diff(ends))
    wide = np.maximum(sizes, 1) if outer else sizes
    rows = np.repeat(np.arange(len(sizes)), wide)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(wide) - wide, wide)
    missing = sizes[rows] == 0
    places = pa.array(np.where(missing, 0, ends[:-1][rows] + within), mask=missing)
    return pa.array(rows), places


def _of_types(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    pairs = zip(columns, schema, strict=True)
    typed = [each if each.type == to.type else each.cast(to.type) for each, to in pairs]
    return pa.RecordBatch.from_arrays(typed, schema=schema)
