"""Packs the rows that reach a step for the exchange: one blob per unit that owns some of them.

Rows do not cross the exchange one by one. A task folds them first where the aggregates allow it,
computes each row's vnode, and writes the rows of one unit as one Arrow stream, which Spark moves
as a single binary value. The receiving actor finds a column ``vnode`` in front of the others.

In a careful attempt rows that have no place in the state are taken out here, and rows are folded
on the actor alone: so that it can say which of them a total cannot take, each comes with its
origin and itself in the last two columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.engine.exchange.careful import Refusing, data_errors, sift, tried
from atoll.engine.exchange.keyed import NULL_KEY_HINT, VNODE, KeyedStep, key_columns
from atoll.engine.exchange.tally import PackCounts
from atoll.errors import AtollError, DataError
from atoll.topology.rows import conformed

if TYPE_CHECKING:
    from atoll.placement.mapping import Mapping
    from atoll.topology.usercode import Rejects

_COMBINE_BYTES_MAX = 64 * 1024 * 1024
"""Rows of so many bytes are folded, however few they are."""


class KeyedPacker:
    """Collects one step's rows in one task, and packs them by the unit of their vnode.

    Args:
        step: The step.
        mapping: Which unit owns each of the step's vnodes.
        tracked: Whether the rows say which records they came from.
        combine_rows_max: How many rows of an aggregate to collect before they are folded; all
            when None.
        rejects: Where a careful attempt sends the rows that cannot be packed; None in others.
    """

    def __init__(
        self,
        step: KeyedStep,
        mapping: Mapping,
        *,
        tracked: bool = False,
        combine_rows_max: int | None = None,
        rejects: Rejects | None = None,
    ) -> None:
        """An empty packer."""
        self.combine_rows_max = combine_rows_max
        self._rows = self._bytes = 0
        self._folded: list[pa.Table] = []
        self.tracked = tracked
        self.step = step
        self.refusing = None if rejects is None else Refusing(step, rejects)
        self.owners = np.asarray(mapping.units, dtype=np.int32)
        self.batches: list[pa.RecordBatch] = []
        self.counts = PackCounts()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""
        if batch.num_rows:
            self.counts.taken += batch.num_rows
            self.batches.append(conformed(batch, tracked=self.tracked))
            self._rows += batch.num_rows
            self._bytes += batch.nbytes
            if self.step.folds and self._is_full():
                self._fold()

    def finish(self, only: Collection[int] | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The blobs, by unit: of all units, or of those whose actors pack for themselves.

        Raises:
            DataError: When a row has no key where the PState needs one.
        """
        if self.batches:
            self._fold()
        if not self._folded:
            return
        table = pa.concat_tables(self._folded).combine_chunks()
        self._folded = []
        owners = self.owners[table.column(VNODE).to_numpy()]
        rows = np.bincount(owners)
        self.counts.packed.update(dict(enumerate(rows.tolist())))
        units = np.flatnonzero(rows) if only is None else only
        for unit in units:
            mine = np.flatnonzero(owners == unit)
            if len(mine) == len(owners):
                yield int(unit), packed(table)
            elif len(mine):
                yield int(unit), packed(table.take(pa.array(mine)))

    def _is_full(self) -> bool:
        """Whether so much was collected that folding may leave less of it."""
        if self.combine_rows_max is None:
            return False
        return self._rows >= self.combine_rows_max or self._bytes >= _COMBINE_BYTES_MAX

    def _fold(self) -> None:
        """Fold what was collected; a key's partial aggregates stay in the order of its rows."""
        with self.step.blamed():
            rows = pa.Table.from_batches(self.batches).combine_chunks()
            rows, left_out = _with_keys(self.step, rows)
            self.counts.left_out += left_out
            if self.refusing is not None:
                self._sift(rows, self.refusing)
                self.counts.aside = self.refusing.count
            elif rows.num_rows:
                self._prepare(rows)
        self.batches, self._rows, self._bytes = [], 0, 0

    def _sift(self, rows: pa.Table, refusing: Refusing) -> None:
        """Prepare the rows that can be; the others are refused."""
        rows = _without_null_keys(self.step, rows, refusing)

        def take(first: int, stop: int) -> AtollError | None:
            part = rows.slice(first, stop - first).combine_chunks()
            return tried(lambda: self._prepare(part))

        for position, error in sift(0, rows.num_rows, take):
            refusing.refuse(rows, position, error)

    def _prepare(self, rows: pa.Table) -> None:
        with data_errors():
            made = self.step.prepared(
                rows,
                len(self.owners),
                tracked=self.tracked,
                singly=self.refusing is not None,
            )
        self._folded.append(made)
        self.counts.made += made.num_rows


class WholePacker:
    """Collects one step's rows in one task, and packs them as a whole for the actor of one unit.

    Args:
        unit: Whose actor takes them.
    """

    def __init__(self, unit: int) -> None:
        """An empty packer."""
        self.unit = unit
        self.batches: list[pa.RecordBatch] = []
        self.counts = PackCounts()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""
        if batch.num_rows:
            self.counts.taken += batch.num_rows
            self.batches.append(batch)

    def finish(self, only: Collection[int] | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The rows as one blob."""
        self.counts.all_for(self.unit, sum(each.num_rows for each in self.batches))
        if self.batches and (only is None or self.unit in only):
            yield self.unit, packed(self.made())

    @abstractmethod
    def made(self) -> pa.Table:
        """The rows that were collected, as they are packed."""


def unpack(blob: pa.Buffer | bytes) -> pa.Table:
    """The rows of a blob."""
    return pa.ipc.open_stream(blob).read_all()


def packed_whole(packer: KeyedPacker, rows: pa.Table) -> pa.Table | None:
    """The rows as the only unit's actor gets them; None when there are none."""
    for batch in rows.to_batches():
        packer.add(batch)
    for _, blob in packer.finish():
        return unpack(blob)
    return None


def packed(table: pa.Table) -> pa.Buffer:
    """Rows as a blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _with_keys(step: KeyedStep, rows: pa.Table) -> tuple[pa.Table, int]:
    """The rows without those that add nothing, because a key is null that none can be.

    And how many these are.
    """
    left_out = 0
    for element in step.keyed_by:
        if element.skips_null and rows.column(element.column).null_count:
            left_out += rows.column(element.column).null_count
            rows = rows.filter(rows.column(element.column).is_valid()).combine_chunks()
    return rows, left_out


def _without_null_keys(step: KeyedStep, rows: pa.Table, refusing: Refusing) -> pa.Table:
    """The rows of which no key is null that must not be; the others are refused."""
    for element in step.keyed_by:
        if element.column is None or element.kind.optional:
            continue
        missing = rows.column(element.column).is_null()
        for position in pc.indices_nonzero(missing).to_pylist():
            error = DataError(
                f"the key {element.column} is null, which {element.kind} does not "
                f"allow; {key_columns(step.keyed_by)}",
                hint=NULL_KEY_HINT,
                column=element.column,
            )
            refusing.refuse(rows, position, error)
        rows = rows.filter(pc.invert(missing)).combine_chunks()
    return rows
