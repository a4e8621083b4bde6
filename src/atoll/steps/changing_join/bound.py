"""Joins whose result changes as the tasks run them: two sides, and how their rows are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.aggregates.kernels.types import fitted
from atoll.codec.values.packing import PACKING
from atoll.schema import Scalar
from atoll.steps.changing_join.signed import TIMES
from atoll.steps.incremental_join.bound import PRESENT, BoundSide

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from atoll.codec.values.leaf import LeafCodec
    from atoll.engine.step import Opening, Work
    from atoll.steps.changing_join.declare import Within
    from atoll.topology.times import Clock

    Numbers = NDArray[np.int64]

MATCHES = "__matches"
"""How many rows of the other side belong to a kept one."""
AT = "__at"
"""The time of a kept row, in milliseconds."""


@dataclass(frozen=True)
class BoundChangingSide(BoundSide):
    """Bring the rows of one side to the actor of their key.

    They are kept in ``pstate`` by the key's elements, the side's name and two numbers that follow
    from the row; rows that are equal are one entry.
    """

    times: str | None
    """Where they are in the order in which they are forgotten."""
    stored: LeafCodec
    """A row, how often it is there, and how many partners it has."""
    preserved: bool
    """Whether its rows come out without a partner."""
    unique: bool
    """Whether of its rows of a key the first one counts alone."""
    identity: tuple[str, ...]
    """The columns by which a changed row is the same one; none: by all."""
    changes: bool
    """Whether its rows may go."""
    at: str | None
    keeps_ms: int | None

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for, and those in which there is something to forget."""
        if self.times is None:
            return {self.pstate: vnodes}
        return dict.fromkeys((self.pstate, self.times), vnodes | opening.due(self.times))

    @property
    def kept_schema(self) -> pa.Schema:
        """The columns of kept rows."""
        fields = [self.rows.field(name) for name in self.kept]
        return pa.schema([*fields, *([] if self.times is None else [pa.field(AT, pa.int64())])])

    def kept_rows(self, rows: pa.Table, now: int | None) -> pa.Table:
        """The columns of rows that are kept.

        Args:
            rows: As they came.
            now: What the clock shows, where their time is that.
        """
        from atoll.steps.windows.event_time import event_millis

        chosen = rows.select(list(self.kept))
        if self.times is None:
            return chosen
        if self.at is None:
            millis = np.full(rows.num_rows, now or 0, np.int64)
        else:
            millis, _ = event_millis(rows.column(self.at))
        return chosen.append_column(AT, pa.array(millis))

    def signs(self, rows: pa.Table) -> Numbers:
        """How often each row came."""
        if not self.changes:
            return np.ones(rows.num_rows, np.int64)
        found: Numbers = rows.column(TIMES).to_numpy()
        return found

    def physical(self, rows: pa.Table) -> list[pa.Array]:
        """The physical columns of rows."""
        columns = []
        for name, node in self.node.fields:
            if name == PRESENT and not self.kept:
                columns.append(pa.repeat(pa.scalar(value=True), rows.num_rows))
                continue
            column = rows.column(name).combine_chunks()
            simple = isinstance(node, Scalar)
            columns.append(column if simple else fitted(column, node, self.title, PACKING))
        return columns

    def restored(self, values: Sequence[bytes]) -> tuple[pa.Table, Numbers, Numbers]:
        """Kept rows, how often each is there, and how many partners it has."""
        schema = self.kept_schema
        found = self.stored.finish_columns(self.stored.decode_columns(values)).flatten()
        times, matches = (each.to_numpy().astype(np.int64) for each in found[-2:])
        columns = found[:-2] if len(schema) else []
        arrays = [
            each.cast(field.type)
            for each, field in zip(columns[-len(schema) :], schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema), times, matches


@dataclass(frozen=True)
class BoundChangingJoin(BoundChangingSide):
    """Tell how the rows of the join change; it takes those of the left side."""

    right: BoundChangingSide
    how: str
    keys: tuple[str, ...]
    """The names of the keys' columns, those of the left side."""
    row: pa.Schema
    """The columns of a row."""
    emitted: pa.Schema
    within: Within | None
    clock: Clock

    @property
    def emits(self) -> pa.Schema:
        """The keys, the old row and the new one; or the row."""
        return self.emitted

    @property
    def only_adds(self) -> bool:
        """Whether rows that came out stay, so that they come out as they are."""
        return bool(self.emitted == self.row)

    @property
    def one_sided(self) -> bool:
        """Whether rows of the left side come out alone."""
        return self.how in ("left_semi", "left_anti")

    @property
    def agenda(self) -> tuple[str, Clock] | None:
        """What is forgotten next."""
        return None if self.times is None else (self.times, self.clock)

    @property
    def runs_without_rows(self) -> bool:
        """Those of the right side may have come, and there may be something to forget."""
        return True

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Join what came and went with what is kept, and forget what is due."""
        from atoll.steps.changing_join.run import join

        others = work.tables(self.right.tag)
        if rows or others or (self.times is not None and work.due(self.times)):
            work.emit(self.tag, join(self, rows, others, work))
