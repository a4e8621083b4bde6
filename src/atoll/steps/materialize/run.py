"""Materialized rows on their way from the task that has them to a staged file.

The rows of one reading task go as a whole to one unit's actor, which stages them as they came in
a file of their own. The manifest says the task's number with each file, so that whoever reads the
rows later reads them in the order of the tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.engine.exchange.packing import WholePacker
from atoll.topology.rows import ORIGIN_FIELD, conformed

if TYPE_CHECKING:
    from atoll.steps.materialize.bind import BoundMaterialize


class SpreadPacker(WholePacker):
    """Collects the rows of one ``materialize`` in one task, for the actor of one unit.

    Args:
        step: The step.
        unit: Whose actor stages the rows.
        tracked: Whether the rows say which records they came from.
    """

    def __init__(self, step: BoundMaterialize, unit: int, *, tracked: bool) -> None:
        """An empty packer."""
        super().__init__(unit)
        self.step = step
        self.tracked = tracked

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""
        if batch.num_rows:
            super().add(conformed(batch, tracked=self.tracked))

    def made(self) -> pa.Table:
        """The rows in the types of the step."""
        schema = self.step.rows.append(ORIGIN_FIELD) if self.tracked else self.step.rows
        parts = [batch.select(schema.names).cast(schema) for batch in self.batches]
        return pa.Table.from_batches(parts, schema)
