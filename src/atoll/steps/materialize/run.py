"""Materialized rows on their way from the task that has them to a staged file.

The rows of one reading task go as a whole to one unit's actor, which stages them as they came in
a file of their own. The manifest says the task's number with each file, so that whoever reads the
rows later reads them in the order of the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.engine.exchange.blobs import Blob, fetch
from atoll.engine.exchange.tally import PackCounts
from atoll.engine.program import MaterializeTerminal
from atoll.topology.rows import ORIGIN_FIELD, conformed

if TYPE_CHECKING:
    from atoll.engine.program import JobProgram

__all__ = ["SpreadPacker", "SpreadTaker"]


class SpreadPacker:
    """Collects the rows of one ``materialize`` in one task, for the actor of one unit.

    Args:
        terminal: The step.
        unit: Whose actor stages the rows.
        tracked: Whether the rows say which records they came from.
    """

    def __init__(self, terminal: MaterializeTerminal, unit: int, *, tracked: bool) -> None:
        """An empty packer."""
        self.terminal = terminal
        self.unit = unit
        self.tracked = tracked
        self.batches: list[pa.RecordBatch] = []
        self.counts = PackCounts()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""
        if batch.num_rows:
            self.counts.taken += batch.num_rows
            self.batches.append(conformed(batch, tracked=self.tracked))

    def finish(self, only: int | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The rows as one blob."""
        self.counts.all_for(self.unit, sum(each.num_rows for each in self.batches))
        if not self.batches or only not in (None, self.unit):
            return
        schema = self.terminal.rows.append(ORIGIN_FIELD) if self.tracked else self.terminal.rows
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in self.batches:
                writer.write_batch(batch.select(schema.names).cast(schema))
        yield self.unit, sink.getvalue()


class SpreadTaker:
    """Takes the blobs of materialized rows out of those that an actor received."""

    def __init__(self, job: JobProgram) -> None:
        """Nothing is taken yet."""
        self._tags = {e.tag for e in job.terminals if isinstance(e, MaterializeTerminal)}
        self._taken: list[Blob] = []

    def take(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Keep what is to be staged; the other blobs."""
        others: list[Blob] = []
        for blob in blobs:
            (self._taken if blob[0] in self._tags else others).append(blob)
        return others

    def tables(self) -> Iterator[tuple[int, int, pa.Table]]:
        """Tag, the packing task's number and its rows."""
        for tag, sequence, payload in self._taken:
            rows = fetch(payload) if isinstance(payload, str) else payload
            yield tag, sequence, pa.ipc.open_stream(rows).read_all()
