"""Steps that fold rows by key: partial aggregates cross the exchange, not rows.

In a careful attempt rows are folded on the actor alone: so that it can say which of them a total
cannot take, each comes with its origin and itself in the last two columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.engine.exchange.grouping import group, worth_combining
from atoll.engine.exchange.keyed import (
    VNODE,
    KeyedStep,
    KeyElement,
    encoded_keys,
    key_arrays,
    vnodes_of_arrays,
)
from atoll.topology.rows import ORIGIN, ORIGIN_FIELD

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from atoll.aggregates.base import Aggregator
    from atoll.codec.values.leaf import LeafCodec
    from atoll.engine.exchange.grouping import Grouping
    from atoll.engine.step import Opening, Packing
    from atoll.microbatch.accounts.entries import Packs
    from atoll.placement.mapping import Mapping
    from atoll.schema import Node

ROW = "__row"
"""The column of the rows themselves, beside what an aggregate makes of them."""


@dataclass(frozen=True)
class FoldedField:
    """One aggregate of a step that folds.

    Its state is the columns ``start`` to ``stop`` of the leaf's physical columns.
    """

    aggregator: Aggregator
    node: Node
    columns: tuple[str | None, ...]
    """The rows' columns that it takes; None is the constant true."""
    start: int
    stop: int
    kinds: tuple[pa.DataType, ...] = ()
    """The columns' types, where they say what the aggregate is of no rows."""


@dataclass(frozen=True)
class FoldingStep(KeyedStep):
    """A step that folds rows by key."""

    elements: tuple[KeyElement, ...]
    fields: tuple[FoldedField, ...]

    folds: ClassVar[bool] = True
    packs: ClassVar[Packs] = "folded"
    placing: ClassVar[slice] = slice(0, 1)
    """Which of the elements say the vnode."""

    @property
    def keyed_by(self) -> tuple[KeyElement, ...]:
        """Its elements."""
        return self.elements

    @property
    def needs(self) -> Collection[str]:
        """The columns of keys and aggregates."""
        keys = [each.column for each in self.elements]
        inputs = [name for each in self.fields for name in each.columns]
        return [name for name in (*keys, *inputs) if name is not None]

    @property
    def joins_rows(self) -> bool:
        """Whether rows become something of which none can be told apart any more."""
        return False

    def grouped(
        self, keys: list[pa.Array], rows: int, *, combining: bool
    ) -> tuple[Grouping | None, list[pa.Array]]:
        """The rows to fold together, and the key of each group; None: each by itself."""
        if not combining or not worth_combining(keys, rows):
            return None, keys
        grouping = group(keys, rows)
        first = pa.array(grouping.first_rows)
        return grouping, [key.take(first) for key in keys]

    def prepared(
        self, rows: pa.Table, vnode_count: int, *, tracked: bool, singly: bool
    ) -> pa.Table:
        """Partial aggregates by key; ``singly`` what each row makes, and the row."""
        apart = singly and not self.joins_rows
        folded = _folded(self, rows, vnode_count, combining=not apart)
        return _with_themselves(self, folded, rows) if apart else folded


@dataclass(frozen=True)
class StoringStep(FoldingStep):
    """A step that folds rows into entries of a PState.

    Each field's aggregate has some of the physical columns of a value.
    """

    pstate: str
    codec: LeafCodec | None
    """None when being there is all there is to an entry."""
    initial: bytes | None
    """The encoded value that an absent entry counts as, or None."""

    def mapping(self, packing: Packing) -> Mapping:
        """The PState's."""
        return packing.mapping(self.pstate)

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for."""
        return {self.pstate: vnodes}

    def values(
        self, olds: list[bytes | None], states: Sequence[pa.Array]
    ) -> Sequence[bytes | None]:
        """The entries' new values, of what rows make of each; None deletes."""
        assert self.codec is not None
        if self.initial is not None:
            olds = [self.initial if old is None else old for old in olds]
        columns = self.codec.decode_columns(olds)
        at = 0
        for each in self.fields:
            width = each.stop - each.start
            columns[each.start : each.stop] = each.aggregator.merge(
                columns[each.start : each.stop], states[at : at + width]
            )
            at += width
        return self.codec.encode_columns(columns)


def _folded(
    step: FoldingStep,
    rows: pa.Table,
    vnode_count: int,
    *,
    combining: bool = True,
) -> pa.Table:
    """Partial aggregates by key (or the lifted rows, where keys hardly repeat)."""
    keys = key_arrays(step.elements, rows)
    inputs = [[_input(rows, name) for name in each.columns] for each in step.fields]
    states: list[pa.Array] = []
    combines = combining and all(each.aggregator.combines for each in step.fields)
    grouping, keys = step.grouped(keys, rows.num_rows, combining=combines)
    if grouping is not None:
        for each, columns in zip(step.fields, inputs, strict=True):
            states += each.aggregator.fold(columns, each.node, grouping.order, grouping.starts)
    else:
        for each, columns in zip(step.fields, inputs, strict=True):
            states += each.aggregator.lift(columns, each.node)
    names = [f"k{index}" for index in range(len(keys))] + [f"s{i}" for i in range(len(states))]
    count = len(states[0]) if states else len(keys[0])
    first = step.placing.start
    vnodes = vnodes_of_arrays(step, keys[step.placing], count, vnode_count, first)
    return pa.Table.from_arrays([vnodes, *keys, *states], names=[VNODE, *names])


def _input(rows: pa.Table, column: str | None) -> pa.Array:
    if column is None:
        return pa.repeat(pa.scalar(value=True), rows.num_rows)
    return rows.column(column).combine_chunks()


def _with_themselves(step: FoldingStep, folded: pa.Table, rows: pa.Table) -> pa.Table:
    """What was made of the rows one by one, with their origins and themselves.

    Raises:
        DataError: When one has no key: what only the actor would find is found here.
    """
    width = len(step.elements)
    keys = [folded.column(1 + index).combine_chunks() for index in range(width)]
    encoded_keys(step, keys, folded.num_rows)
    seen = rows.drop_columns([ORIGIN])
    itself = pa.StructArray.from_arrays(
        [column.combine_chunks() for column in seen.columns], fields=list(seen.schema)
    )
    named = folded.append_column(ORIGIN_FIELD, rows.column(ORIGIN))
    return named.append_column(ROW, itself)
