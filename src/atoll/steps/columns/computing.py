"""``where``, ``select`` and ``with_columns`` inside a chain: their expressions are all certified.

A row on which one of them fails is found as a careful attempt finds others: the rows are halved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from atoll.columns.reading import computed
from atoll.columns.tree import SURE, Column, Node, RowError, Rows, columns_of
from atoll.columns.types import NotCertifiedError, words
from atoll.engine.exchange.careful import FIRST, Refusing, sift
from atoll.errors import AtollError, DataError
from atoll.steps.columns.guards import Guard, Guarded, expression_title, shown_as
from atoll.steps.columns.select import Select
from atoll.steps.columns.where import Where
from atoll.steps.columns.with_columns import WithColumns
from atoll.topology.expressions import bare_column, named
from atoll.topology.operator import BatchOperator, ColumnOperator
from atoll.topology.rows import row_at, with_origins, without_origins
from atoll.topology.usercode import NO_COLUMN

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
        values = zip(self._values(plain), self.chosen, strict=True)
        columns = [each if each.type == to.type else each.cast(to.type) for each, to in values]
        return with_origins(pa.RecordBatch.from_arrays(columns, schema=self.chosen), origins)


def computing(step: ColumnOperator, rows: pa.Schema, chosen: pa.Schema | None = None) -> Computing:
    """A column step as tasks run it.

    Args:
        step: The step.
        rows: The columns before it.
        chosen: Those after it, where Spark has said; else they are found here.

    Raises:
        NotCertifiedError: When Spark has to run it, with the reason in words.
    """
    if NO_COLUMN in rows.names:
        raise NotCertifiedError("rows without columns")
    match step:
        case Where(condition=text):
            node = computed(text, rows)
            if node.type != pa.bool_():
                raise NotCertifiedError(f"a condition of {words(node.type)}")
            guarded = _guarded(step, rows, [(text, node)])
            return Sieving(step.inputs, step.place, (node,), guarded, chosen or rows)
        case WithColumns(expressions=pairs):
            given = dict(pairs)
            found = [(name, shown_as(name, text), computed(text, rows)) for name, text in pairs]
            by_name = {name: (shown, node) for name, shown, node in found}
            kept = [(n, *by_name.pop(n, _column(n, rows))) for n in rows.names]
            added = [(n, *by_name[n]) for n in given if n in by_name]
            return _projecting(step, rows, [*kept, *added], chosen)
        case Select(expressions=texts):
            return _projecting(step, rows, list(_selected(texts, rows, chosen)), chosen)
    raise NotCertifiedError(f"{step.title}, which is a step of Spark's")


_Named = tuple[str, str, Node]
"""The name of a column, how its expression is shown, and what computes it."""


def _column(name: str, rows: pa.Schema) -> tuple[str, Node]:
    at = rows.names.index(name)
    return name, Column(rows.field(at).type, SURE, at)


def _selected(texts: Sequence[str], rows: pa.Schema, chosen: pa.Schema | None) -> Iterator[_Named]:
    for each in texts:
        text, name = named(each)
        if text == "*":
            yield from ((n, *_column(n, rows)) for n in rows.names)
            continue
        if chosen is None and name == text and bare_column(text) is None:
            raise NotCertifiedError("a column without a name: write AS name")
        yield name, each, computed(text, rows)


def _projecting(
    step: ColumnOperator, rows: pa.Schema, found: list[_Named], chosen: pa.Schema | None
) -> Projecting:
    nodes = tuple(node for _, _, node in found)
    guarded = _guarded(step, rows, [(shown, node) for _, shown, node in found])
    if chosen is None:
        chosen = pa.schema([pa.field(name, node.type) for name, _, node in found])
    _check_types(nodes, guarded, chosen)
    return Projecting(step.inputs, step.place, nodes, guarded, chosen)


def _check_types(nodes: Sequence[Node], guarded: Guarded, chosen: pa.Schema) -> None:
    """Hold that Spark makes of the step what is computed here."""
    if len(nodes) != len(chosen):
        raise NotCertifiedError("a step of which Spark makes other columns")
    for node, guard, field in zip(nodes, guarded.guards, chosen, strict=True):
        same = node.type == field.type or pa.types.is_nested(node.type)
        if not same:
            kinds = f"{words(field.type)}, not {words(node.type)}"
            raise NotCertifiedError(f"{guard.shown}, which Spark makes {kinds}")


def _guarded(step: ColumnOperator, rows: pa.Schema, found: Sequence[tuple[str, Node]]) -> Guarded:
    guards = tuple(
        Guard(shown, tuple(rows.names[at] for at in columns_of(node))) for shown, node in found
    )
    return Guarded(expression_title(step), step.place, guards)
