"""``write_to`` as tasks run it: the rows as they are, in files that the commit names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.engine.binding.columns import distinct_columns
from atoll.engine.exchange.packing import WholePacker
from atoll.engine.step import BoundStep, Phase
from atoll.errors import SinkError
from atoll.microbatch.accounts.entries import EndChart
from atoll.names import sink_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from atoll.engine.step import Packing, Work
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.write_to.declare import WriteTo
    from atoll.topology.binding import Binding


@dataclass(frozen=True)
class BoundWrite(BoundStep):
    """Write the rows down for a sink; any actor may."""

    sink: str
    schema: pa.Schema
    changes: bool
    """Whether its rows are a PState's changes."""

    phase: ClassVar[Phase] = Phase.HAND_ON
    keyed: ClassVar[bool] = False

    @property
    def needs(self) -> Collection[str]:
        """All columns."""
        return self.schema.names  # type: ignore[no-any-return]

    def packer(self, packing: Packing) -> SinkPacker:
        """What a task has goes as a whole to one actor."""
        return SinkPacker(self, packing.turn)

    def chart(self, pstates: Mapping[str, PStateSpec]) -> EndChart:
        """Its rows are in files afterwards."""
        return EndChart(self.tag, self.label, "each", depot=sink_key(self.sink))

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Each task's rows in a file of their own."""
        for sequence, part in work.parts(self.tag):
            kind = "changes" if self.changes else "rows"
            work.append(self.tag, sink_key(self.sink), part, sequence, kind)


class SinkPacker(WholePacker):
    """Collects the rows of one ``write_to`` in one task, for the actor of one unit.

    Args:
        step: The step.
        unit: Whose actor writes the rows.
    """

    def __init__(self, step: BoundWrite, unit: int) -> None:
        """An empty packer."""
        super().__init__(unit)
        self.step = step

    def made(self) -> pa.Table:
        """The rows, without columns that only say which records they are of."""
        schema = self.step.schema
        table = pa.Table.from_batches(self.batches).select(schema.names)
        return table if table.schema.equals(schema) else table.cast(schema)


def bound_write(step: WriteTo, binding: Binding) -> BoundWrite:
    """The step as tasks run it.

    Raises:
        DeclarationError: When two columns have one name.
        SinkError: When the sink takes no such rows.
    """
    schema = distinct_columns(binding.rows(step), step)
    rows = step.rows(schema)
    try:
        step.sink.check(rows)
    except SinkError as error:
        error.context.setdefault("sink", step.name)
        error.context.setdefault("declared", step.place)
        raise
    return BoundWrite(*binding.name(step), step.name, schema, rows.changes)
