"""``incremental_join`` as the tasks run it: its two sides, and how their rows are kept."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.aggregates.kernels.types import fitted
from atoll.codec.values.packing import PACKING
from atoll.engine.exchange.keyed import KeyElement, WholeRowStep
from atoll.schema import Scalar

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from atoll.codec.values.leaf import LeafCodec
    from atoll.engine.step import Opening, Packing, Work
    from atoll.placement.mapping import Mapping
    from atoll.schema import Struct
    from atoll.steps.incremental_join.declare import Side

PRESENT = "present"
"""The field of a kept row that has no columns but its key's."""


@dataclass(frozen=True)
class BoundSide(WholeRowStep):
    """Bring the rows of one side to the actor of their key."""

    side: Side
    pstate: str
    """Where the rows of both sides are, by the elements, the side's name and, for a side that is
    not unique, microbatch and number."""
    elements: tuple[KeyElement, ...]
    rows: pa.Schema
    kept: tuple[str, ...]
    """The columns that come out of the join, so that they are stored."""
    node: Struct
    codec: LeafCodec

    tells_records: ClassVar[bool] = False

    def mapping(self, packing: Packing) -> Mapping:
        """The PState's."""
        return packing.mapping(self.pstate)

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for."""
        return {self.pstate: vnodes}

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Nothing: the join takes them."""

    def encode(self, rows: pa.Table) -> list[bytes]:
        """The rows as they are stored."""
        columns = []
        for name, node in self.node.fields:
            if name not in self.kept:
                columns.append(pa.repeat(pa.scalar(value=True), rows.num_rows))
                continue
            column = rows.column(name).combine_chunks()
            simple = isinstance(node, Scalar)
            columns.append(column if simple else fitted(column, node, self.title, PACKING))
        return self.codec.encode_columns(columns)

    def decode(self, values: Sequence[bytes | None]) -> pa.Table:
        """Stored rows, with the columns that are kept."""
        schema = pa.schema([self.rows.field(name) for name in self.kept])
        if not self.kept:
            return pa.table({}, schema=schema)
        found = self.codec.finish_columns(self.codec.decode_columns(values)).flatten()
        columns = [each.cast(field.type) for each, field in zip(found, schema, strict=True)]
        return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class BoundJoin(BoundSide):
    """Join the rows of both sides; it takes those of the left one."""

    right: BoundSide
    unique: Side | None
    emitted: pa.Schema
    """The columns of the left side in their order, the shared ones first; then the right's."""

    @property
    def emits(self) -> pa.Schema:
        """A row per pair."""
        return self.emitted

    @property
    def runs_without_rows(self) -> bool:
        """Those of the right side may have come."""
        return True

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Join new rows with each other and with those kept."""
        from atoll.steps.incremental_join.run import join

        others = work.tables(self.right.tag)
        writer_of = functools.partial(work.writer, self.pstate)
        work.emit(self.tag, join(self, rows, others, work.id, writer_of))

    def out(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Rows of both sides that lie side by side, as they come out."""
        columns = [
            (left if name in self.rows.names else right).column(name) for name in self.emitted.names
        ]
        return pa.Table.from_arrays(columns, schema=self.emitted)
