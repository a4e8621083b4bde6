"""Rows on their way to a depot, from the task that has them to the actor that writes them down.

The rows of one reading task go as a whole to one unit's actor, which writes them as they came to a
file of their own: so the rows of a depot partition keep their order, over the tasks by the files'
names. Whatever the depot could refuse (a missing value, a partitioner of the user's that raises)
is found here, because rows of a commit that stands must not be refused any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.depot.partitioner import Placer
from atoll.engine.exchange.careful import Refusing, sift, tried
from atoll.engine.exchange.packing import WholePacker
from atoll.errors import AtollError, RecordsRefusedError

if TYPE_CHECKING:
    from atoll.steps.append_to.bind import BoundAppend
    from atoll.topology.usercode import Rejects


class AppendPacker(WholePacker):
    """Collects the rows of one ``append_to`` in one task, for the actor of one unit.

    Args:
        step: The step.
        unit: Whose actor writes the rows.
        rejects: Where a careful attempt sends the rows that the depot refuses; None in others.
    """

    def __init__(self, step: BoundAppend, unit: int, rejects: Rejects | None = None) -> None:
        """An empty packer."""
        super().__init__(unit)
        self.step = step
        self.refusing = None if rejects is None else Refusing(step, rejects)

    def finish(self, only: Collection[int] | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The rows as the depot will hold them, as one blob.

        Raises:
            RecordsRefusedError: When the depot would refuse a row.
            UserCodeError: When the depot's partitioner raises.
        """
        if self.refusing is not None:
            self._sift(self.refusing)
        yield from super().finish(only)

    def made(self) -> pa.Table:
        """The rows, checked."""
        with self.step.blamed():
            return pa.Table.from_batches(list(self._checked()), self.step.schema)

    def _checked(self) -> Iterator[pa.RecordBatch]:
        step = self.step
        codec = RecordCodec(step.schema)
        placer = self._placer()
        for batch in self.batches:
            yield self._fitting(batch, codec, placer)

    def _sift(self, refusing: Refusing) -> None:
        """Keep the rows that the depot holds; the others are refused."""
        step = self.step
        codec = RecordCodec(step.schema)
        placer = self._placer()
        good: list[pa.RecordBatch] = []
        for batch in self.batches:
            rows = pa.Table.from_batches([batch])

            def take(first: int, stop: int, batch: pa.RecordBatch = batch) -> AtollError | None:
                part = batch.slice(first, stop - first)
                return tried(lambda: good.append(self._fitting(part, codec, placer)))

            with step.blamed():
                for position, error in sift(0, batch.num_rows, take):
                    refusing.refuse(rows, position, error)
        self.batches = good
        self.counts.aside = refusing.count

    def _placer(self) -> Placer | None:
        """What the depot's partitioner is tried with; None where that cannot fail."""
        step = self.step
        if step.partitioner is None:
            return None
        return Placer(step.partitioner, step.schema, step.partitions, step.depot)

    def _fitting(
        self, batch: pa.RecordBatch, codec: RecordCodec, placer: Placer | None
    ) -> pa.RecordBatch:
        step = self.step
        known = [name for name in step.schema.names if name in batch.schema.names]
        checked = codec.from_arrow(batch.select(known))
        if checked.refused_count:
            raise RecordsRefusedError(
                f"append_to has {checked.refused_count} of {batch.num_rows} rows that depot "
                f"{step.depot!r} does not hold: {checked.refusals[0].reason}",
                hint="filter such rows out with where(...), or fill in what is missing",
                target=step.depot,
            )
        if placer is not None:
            placer.divide(checked.batch)
        return checked.batch
