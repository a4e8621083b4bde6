"""The rows of one side of a join that came in a microbatch, by vnode and key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.binary import BINARY, join_columns, list_from_binary
from atoll.codec.keys.columns import KeyColumn, encode_columns
from atoll.codec.keys.elements import encode_element
from atoll.engine.exchange.keyed import VNODE, encoded_keys, key_arrays
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.steps.incremental_join.bound import BoundSide

WriterOf = Callable[[int], "VnodeWriter"]

_INT = Scalar("int")
_TAIL_BYTES = 18
"""Of microbatch and number, behind the side."""


@dataclass(frozen=True)
class Rows:
    """Rows in the order in which they came, and their distinct keys by vnode and key.

    Attributes:
        step: Their side.
        table: The rows.
        order: Their positions, by vnode, key and order of arrival.
        sorted_keys: The key of each, in that order.
        firsts: Where in that order the rows of each distinct key begin.
        keys: The distinct keys.
        vnodes: The vnode of each distinct key.
        group: For each row the number of its key among the distinct ones.
    """

    step: BoundSide
    table: pa.Table
    order: NDArray[np.int64]
    sorted_keys: KeyColumn
    firsts: NDArray[np.int64]
    keys: list[bytes]
    vnodes: NDArray[np.int64]
    group: NDArray[np.int64]

    def slices(self) -> Iterator[tuple[int, slice]]:
        """Each vnode, and which of the distinct keys are its own."""
        if not self.keys:
            return
        bounds = np.flatnonzero(np.diff(self.vnodes, prepend=-1)).tolist()
        for start, stop in zip(bounds, [*bounds[1:], len(self.keys)], strict=True):
            yield int(self.vnodes[start]), slice(start, stop)

    def appended(
        self, wanted: NDArray[np.bool_], microbatch: int
    ) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
        """For each vnode keys and values under which to keep some of the rows.

        Args:
            wanted: For each row whether to keep it.
            microbatch: When it came.
        """
        places = np.flatnonzero(wanted[self.order])
        if not len(places):
            return
        chosen = self.order[places]
        when = pa.array(np.full(len(chosen), microbatch, np.int64))
        tails = encode_columns([when, pa.array(chosen)], [_INT, _INT]).to_arrow()
        side = pa.scalar(side_key(self.step), BINARY)
        heads = self.sorted_keys.take(places).to_arrow()
        keys = list_from_binary(join_columns([heads, side, tails]))
        values = self.step.encode(self.table.take(pa.array(chosen)))
        vnodes = self.vnodes[self.group[chosen]]
        bounds = np.flatnonzero(np.diff(vnodes, prepend=-1)).tolist()
        for start, stop in zip(bounds, [*bounds[1:], len(keys)], strict=True):
            yield int(vnodes[start]), keys[start:stop], values[start:stop]


@dataclass
class Waiting:
    """Rows of one side that were kept, by the vnodes in which they are."""

    keys: dict[int, list[bytes]]
    values: list[bytes]
    owners: list[int]
    """For each the number of its key among the distinct ones that were asked for."""


def rows_of(step: BoundSide, tables: Sequence[pa.Table]) -> Rows:
    """The rows of tables that were packed for a step."""
    if not tables:
        nothing = np.zeros(0, np.int64)
        table = step.rows.empty_table()
        return Rows(step, table, nothing, KeyColumn.from_bytes([]), nothing, [], nothing, nothing)
    packed = pa.concat_tables(tables).combine_chunks()
    table = packed.drop_columns([VNODE])
    vnodes = packed.column(VNODE).to_numpy().astype(np.int64)
    encoded = encoded_keys(step, key_arrays(step.elements, table), table.num_rows)
    order = encoded.sort_order()
    order = order[np.argsort(vnodes[order], kind="stable")]
    sorted_keys = encoded.take(order)
    firsts = sorted_keys.group_starts()
    counts = np.diff(firsts, append=len(order))
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(firsts)), counts)
    keys = sorted_keys.take(firsts).to_bytes()
    return Rows(step, table, order, sorted_keys, firsts, keys, vnodes[order[firsts]], group)


def side_key(step: BoundSide) -> bytes:
    """What follows the key in the entries of a side."""
    return encode_element(step.side, Scalar("str"))


def waiting(
    step: BoundSide, other: Rows, wanted: NDArray[np.bool_], writer_of: WriterOf
) -> Waiting:
    """The rows of a side that are kept under the wanted keys of the other side, as they came."""
    end = side_key(step)
    found = Waiting({}, [], [])
    for vnode, part in other.slices():
        numbers = (np.flatnonzero(wanted[part]) + part.start).tolist()
        prefixes = [other.keys[number] + end for number in numbers]
        pairs = writer_of(vnode).under(prefixes, _TAIL_BYTES) if prefixes else ()
        for number, entries in zip(numbers, pairs, strict=True):
            if entries:
                found.keys.setdefault(vnode, []).extend(key for key, _ in entries)
                found.values.extend(value for _, value in entries)
                found.owners.extend([number] * len(entries))
    return found
