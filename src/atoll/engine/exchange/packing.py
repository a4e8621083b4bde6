"""Packs the rows that reach a terminal for the exchange: one blob per unit that owns some of them.

Rows do not cross the exchange one by one. A task folds them first where the aggregates allow it,
computes each row's vnode, and writes the rows of one unit as one Arrow stream, which Spark moves
as a single binary value. The receiving actor finds a column ``vnode`` in front of the others.

In a careful attempt rows that have no place in the state are taken out here, and rows are folded
on the actor alone: so that it can say which of them a total cannot take, each comes with its
origin and itself in the last two columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.aggregates.kernels.types import exact_cast
from atoll.arrow_types import arrow_type
from atoll.codec.keys.columns import KeyColumn, empty_keys, encode_columns
from atoll.engine.exchange.careful import Refusing, data_errors, sift, tried
from atoll.engine.exchange.grouping import group, worth_combining
from atoll.engine.exchange.tally import PackCounts
from atoll.engine.program import (
    AggregateTerminal,
    FoldTerminal,
    KeyElement,
    LookupTerminal,
    ProcessTerminal,
    Terminal,
)
from atoll.errors import AtollError, DataError, StateError
from atoll.placement.vnodes import vnodes_by, vnodes_of
from atoll.steps.incremental_join.terminals import JoinSideTerminal
from atoll.steps.windows.session_rows import partial_sessions
from atoll.steps.windows.terminals import TIMES, LiveSessionsTerminal, WindowTerminal
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD, conformed

if TYPE_CHECKING:
    from atoll.placement.mapping import Mapping
    from atoll.schema import Scalar
    from atoll.topology.usercode import Rejects

__all__ = ["ROW", "VNODE", "Packer", "encoded_keys", "key_arrays", "unpack"]

VNODE = "__vnode"
ROW = "__row"
"""The column of the rows themselves, beside what an aggregate makes of them."""

_FOLDING = AggregateTerminal | FoldTerminal | WindowTerminal
_COMBINE_BYTES_MAX = 64 * 1024 * 1024
"""Rows of so many bytes are folded, however few they are."""

_VNODE_FIELD = pa.field(VNODE, pa.uint16())


class Packer:
    """Collects one terminal's rows in one task.

    Args:
        terminal: An aggregate, fold, process, lookup or join terminal.
        mapping: Which unit owns each vnode of the terminal's PStates, or of a fold's groups.
        tracked: Whether the rows say which records they came from.
        combine_rows_max: How many rows of an aggregate to collect before they are folded; all
            when None.
        rejects: Where a careful attempt sends the rows that cannot be packed; None in others.
    """

    def __init__(
        self,
        terminal: Terminal,
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
        kinds = _FOLDING | ProcessTerminal | LookupTerminal | JoinSideTerminal
        assert isinstance(terminal, kinds)
        self.terminal = terminal
        self.refusing = None if rejects is None else Refusing(terminal, rejects)
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
            if isinstance(self.terminal, _FOLDING) and self._is_full():
                self._fold()

    def finish(self, only: int | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The blobs, by unit; those of one unit only when the caller is that unit's actor.

        Raises:
            DataError: When a row has no key where the PState needs one.
        """
        if self.batches:
            self._fold()
        if not self._folded:
            return
        table = pa.concat_tables(self._folded).combine_chunks()
        owners = self.owners[table.column(VNODE).to_numpy()]
        rows = np.bincount(owners)
        self.counts.packed.update(dict(enumerate(rows.tolist())))
        units = np.flatnonzero(rows) if only is None else (only,)
        for unit in units:
            mine = np.flatnonzero(owners == unit)
            if len(mine) == len(owners):
                yield int(unit), _stream(table)
            elif len(mine):
                yield int(unit), _stream(table.take(pa.array(mine)))

    def _is_full(self) -> bool:
        """Whether so much was collected that folding may leave less of it."""
        if self.combine_rows_max is None:
            return False
        return self._rows >= self.combine_rows_max or self._bytes >= _COMBINE_BYTES_MAX

    def _fold(self) -> None:
        """Fold what was collected; a key's partial aggregates stay in the order of its rows."""
        with self.terminal.blamed():
            rows = pa.Table.from_batches(self.batches).combine_chunks()
            rows, left_out = _with_keys(self.terminal, rows)
            self.counts.left_out += left_out
            if self.refusing is not None:
                self._sift(rows, self.refusing)
                self.counts.aside = self.refusing.count
            elif rows.num_rows:
                self._prepare(rows)
        self.batches, self._rows, self._bytes = [], 0, 0

    def _sift(self, rows: pa.Table, refusing: Refusing) -> None:
        """Prepare the rows that can be; the others are refused."""
        rows = _without_null_keys(self.terminal, rows, refusing)

        def take(first: int, stop: int) -> AtollError | None:
            part = rows.slice(first, stop - first).combine_chunks()
            return tried(lambda: self._prepare(part))

        for position, error in sift(0, rows.num_rows, take):
            refusing.refuse(rows, position, error)

    def _prepare(self, rows: pa.Table) -> None:
        with data_errors():
            self._folded.append(self._prepared(rows))
        self.counts.made += self._folded[-1].num_rows

    def _prepared(self, rows: pa.Table) -> pa.Table:
        match self.terminal:
            case AggregateTerminal() | FoldTerminal() | WindowTerminal():
                singly = self.refusing is not None and not _joins_sessions(self.terminal)
                folded = _folded(self.terminal, rows, len(self.owners), combining=not singly)
                return _with_themselves(self.terminal, folded, rows) if singly else folded
            case LookupTerminal(elements=elements, rows=schema):
                vnodes = _vnodes(self.terminal, elements[:1], rows, len(self.owners))
                return _with_vnodes(_chosen(rows, schema, tracked=self.tracked), vnodes)
            case JoinSideTerminal(elements=elements, rows=schema):
                vnodes = _vnodes(self.terminal, elements, rows, len(self.owners))
                return _with_vnodes(_chosen(rows, schema, tracked=False), vnodes)
            case ProcessTerminal(route="all", rows=schema):
                return _to_every_vnode(
                    _chosen(rows, schema, tracked=self.tracked), len(self.owners)
                )
            case ProcessTerminal(route="number", key=KeyElement(column=name), rows=schema):
                vnodes = _numbered(rows.column(name), len(self.owners))
                return _with_vnodes(_chosen(rows, schema, tracked=self.tracked), vnodes)
            case ProcessTerminal(key=key, rows=schema):
                elements = () if key is None else (key,)
                vnodes = _vnodes(self.terminal, elements, rows, len(self.owners))
                return _with_vnodes(_chosen(rows, schema, tracked=self.tracked), vnodes)
        raise AssertionError(self.terminal)


def unpack(blob: pa.Buffer | bytes) -> pa.Table:
    """The rows of a blob, ``VNODE`` first."""
    return pa.ipc.open_stream(blob).read_all()


def key_arrays(elements: tuple[KeyElement, ...], rows: pa.Table) -> list[pa.Array]:
    """The key columns of the rows, in the Arrow types of their kinds.

    Raises:
        DataError: When a value cannot be turned into its kind.
    """
    arrays = []
    for element in elements:
        if element.column is None:
            arrays.append(pa.repeat(pa.scalar(element.constant, pa.string()), rows.num_rows))
            continue
        column = rows.column(element.column)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        try:
            arrays.append(_as_kind(array, element.kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"column {element.column!r} does not fit the key's type: {error}",
                hint="cast the column so that every value of it fits",
            ) from error
    return arrays


def _as_kind(array: pa.Array, kind: Scalar) -> pa.Array:
    """Cast; the members of a tuple by position, whatever the struct's fields are called."""
    wanted = arrow_type(kind)
    if not pa.types.is_struct(wanted):
        return exact_cast(array, wanted)
    pairs = zip(array.flatten(), kind.items, strict=True)
    members = [_as_kind(member, item) for member, item in pairs]
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=array.is_null())


def encoded_keys(
    terminal: Terminal, arrays: Sequence[pa.Array], rows: int, first: int = 0
) -> KeyColumn:
    """The keys as bytes, one per row; all the same when there are no elements.

    ``arrays`` are those of the terminal's key elements from the ``first`` on, or the first of them.

    Raises:
        DataError: When a row has no key where the PState needs one.
    """
    if not arrays:
        return empty_keys(rows)
    elements = _elements_of(terminal)[first : first + len(arrays)]
    kinds = [element.kind for element in elements]
    try:
        return encode_columns(arrays, kinds)
    except StateError as error:
        context = {name: value for name, value in error.context.items() if name != "row"}
        raise DataError(
            f"{error.message}; {_key_columns(elements)}", hint=_NULL_KEY_HINT, **context
        ) from error


_NULL_KEY_HINT = "filter such rows out with where(...), or declare the key as X | None"


def _key_columns(elements: Sequence[KeyElement]) -> str:
    names = [element.column or repr(element.constant) for element in elements]
    return f"the key columns are {', '.join(names)}"


def _elements_of(terminal: Terminal) -> tuple[KeyElement, ...]:
    match terminal:
        case (
            AggregateTerminal(elements=elements)
            | LookupTerminal(elements=elements)
            | FoldTerminal(elements=elements)
            | WindowTerminal(elements=elements)
            | JoinSideTerminal(elements=elements)
        ):
            return elements
        case ProcessTerminal(key=key) if key is not None:
            return (key,)
    return ()


def _with_keys(terminal: Terminal, rows: pa.Table) -> tuple[pa.Table, int]:
    """The rows without those that add nothing, because a key is null that none can be.

    And how many these are.
    """
    left_out = 0
    for element in _elements_of(terminal):
        if element.skips_null and rows.column(element.column).null_count:
            left_out += rows.column(element.column).null_count
            rows = rows.filter(rows.column(element.column).is_valid()).combine_chunks()
    return rows, left_out


def _without_null_keys(terminal: Terminal, rows: pa.Table, refusing: Refusing) -> pa.Table:
    """The rows of which no key is null that must not be; the others are refused."""
    if isinstance(terminal, ProcessTerminal) and terminal.route != "key":
        return rows
    elements = _elements_of(terminal)
    for element in elements:
        if element.column is None or element.kind.optional:
            continue
        missing = rows.column(element.column).is_null()
        for position in pc.indices_nonzero(missing).to_pylist():
            error = DataError(
                f"the key {element.column} is null, which {element.kind} does not "
                f"allow; {_key_columns(elements)}",
                hint=_NULL_KEY_HINT,
                column=element.column,
            )
            refusing.refuse(rows, position, error)
        rows = rows.filter(pc.invert(missing)).combine_chunks()
    return rows


def _joins_sessions(terminal: Terminal) -> bool:
    """Whether rows become sessions, which are stretches of time and no longer rows."""
    return isinstance(terminal, WindowTerminal) and terminal.sessions is not None


def _with_themselves(terminal: Terminal, folded: pa.Table, rows: pa.Table) -> pa.Table:
    """What was made of the rows one by one, with their origins and themselves.

    Raises:
        DataError: When one has no key: what only the actor would find is found here.
    """
    width = len(_elements_of(terminal))
    keys = [folded.column(1 + index).combine_chunks() for index in range(width)]
    encoded_keys(terminal, keys, folded.num_rows)
    seen = rows.drop_columns([ORIGIN])
    itself = pa.StructArray.from_arrays(
        [column.combine_chunks() for column in seen.columns], fields=list(seen.schema)
    )
    named = folded.append_column(ORIGIN_FIELD, rows.column(ORIGIN))
    return named.append_column(ROW, itself)


def _folded(
    terminal: AggregateTerminal | FoldTerminal | WindowTerminal,
    rows: pa.Table,
    vnode_count: int,
    *,
    combining: bool = True,
) -> pa.Table:
    """Partial aggregates by key (or the lifted rows, where keys hardly repeat)."""
    keys = key_arrays(terminal.elements, rows)
    inputs = [[_input(rows, name) for name in each.columns] for each in terminal.fields]
    states: list[pa.Array] = []
    combines = combining and all(each.aggregator.combines for each in terminal.fields)
    grouping = None
    if _joins_sessions(terminal):
        grouping, keys = partial_sessions(keys)
    elif combines and worth_combining(keys, rows.num_rows):
        grouping = group(keys, rows.num_rows)
        first = pa.array(grouping.first_rows)
        keys = [key.take(first) for key in keys]
    if grouping is not None:
        for each, columns in zip(terminal.fields, inputs, strict=True):
            states += each.aggregator.fold(columns, each.node, grouping.order, grouping.starts)
    else:
        for each, columns in zip(terminal.fields, inputs, strict=True):
            states += each.aggregator.lift(columns, each.node)
    names = [f"k{index}" for index in range(len(keys))] + [f"s{i}" for i in range(len(states))]
    count = len(states[0]) if states else len(keys[0])
    match terminal:
        case LiveSessionsTerminal():
            vnodes = _vnodes_of_arrays(terminal, keys[TIMES : TIMES + 1], count, vnode_count, TIMES)
        case WindowTerminal():  # all windows of a key share a vnode
            vnodes = _vnodes_of_arrays(terminal, keys[TIMES:], count, vnode_count, TIMES)
        case FoldTerminal():
            vnodes = _vnodes_of_arrays(terminal, keys, count, vnode_count)
        case _:
            vnodes = _vnodes_of_arrays(terminal, keys[:1], count, vnode_count)
    return pa.Table.from_arrays([vnodes, *keys, *states], names=[VNODE, *names])


def _input(rows: pa.Table, column: str | None) -> pa.Array:
    if column is None:
        return pa.repeat(pa.scalar(value=True), rows.num_rows)
    return rows.column(column).combine_chunks()


def _vnodes(
    terminal: Terminal, elements: tuple[KeyElement, ...], rows: pa.Table, vnode_count: int
) -> pa.Array:
    arrays = key_arrays(elements, rows)
    return _vnodes_of_arrays(terminal, arrays, rows.num_rows, vnode_count)


def _vnodes_of_arrays(
    terminal: Terminal, arrays: list[pa.Array], count: int, vnode_count: int, first: int = 0
) -> pa.Array:
    if vnode_count == 1 or not arrays:
        return pa.array(np.zeros(count, dtype=np.uint16))
    keys = encoded_keys(terminal, arrays, count, first)
    partition_by = _elements_of(terminal)[first].partition_by
    if partition_by is not None:
        return pa.array(vnodes_by(partition_by, keys, vnode_count))
    return pa.array(vnodes_of(keys, vnode_count))


def _numbered(column: pa.ChunkedArray, vnode_count: int) -> pa.Array:
    """The vnode of each number; null counts as 0."""
    numbers = column.combine_chunks().cast(pa.int64()).fill_null(0).to_numpy()
    return pa.array((numbers % vnode_count).astype(np.uint16))


def _to_every_vnode(rows: pa.Table, vnode_count: int) -> pa.Table:
    """Each row once per vnode, the rows of a vnode in their order."""
    copies = rows.take(pa.array(np.tile(np.arange(rows.num_rows), vnode_count)))
    vnodes = np.repeat(np.arange(vnode_count, dtype=np.uint16), rows.num_rows)
    return _with_vnodes(copies, pa.array(vnodes))


def _chosen(rows: pa.Table, schema: pa.Schema, *, tracked: bool) -> pa.Table:
    wanted = schema.append(ORIGIN_FIELD) if tracked else schema
    return rows.select(wanted.names).cast(wanted)


def _with_vnodes(rows: pa.Table, vnodes: pa.Array) -> pa.Table:
    return rows.add_column(0, _VNODE_FIELD, vnodes)


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
