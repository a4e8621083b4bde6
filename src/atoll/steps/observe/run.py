"""Takes from the rows what a commit says of them: how far event time is, how many were dropped.

Each reading task boils its rows down to a number per depot partition; the numbers of all tasks
meet on one actor, whose manifest tells them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.provenance import Records
from atoll.engine.exchange.tally import PackCounts
from atoll.steps.windows.event_time import event_millis
from atoll.topology.rows import ORIGIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.microbatch.commits.objects import Ranges
    from atoll.steps.observe.bind import BoundObserve

_SCHEMA = pa.schema([("part", pa.string()), ("number", pa.int64())])

_ANY = ""
"""The part of rows of which it is not known from which depot partition they came."""


class ObservePacker:
    """One observation in one task, for the actor of one unit.

    Args:
        step: The step.
        ranges: What the microbatch reads: by them rows know their depot partition.
        unit: Whose actor takes it.
    """

    def __init__(self, step: BoundObserve, ranges: Ranges, unit: int) -> None:
        """Nothing is seen yet."""
        self.step = step
        self.unit = unit
        self.numbers: dict[str, int] = {}
        self.counts = PackCounts()
        self._records = Records(ranges)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch."""
        self.counts.taken += batch.num_rows
        column = self.step.column
        if column is None:
            self._tell(_ANY, batch.num_rows)
            return
        millis, valid = event_millis(batch.column(column))
        if not valid.any():
            return
        for part, highest in self._highest(batch, millis, valid):
            self._tell(part, highest - self.step.delay_ms)

    def finish(self, only: Collection[int] | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The numbers, as a blob."""
        told_of = self.step.column is not None or bool(self.numbers.get(_ANY))
        self.counts.all_for(self.unit, len(self.numbers) if told_of else 0)
        if self.step.column is None and not self.numbers.get(_ANY):
            return
        if not self.numbers or (only is not None and self.unit not in only):
            return
        told = {"part": list(self.numbers), "number": list(self.numbers.values())}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA) as writer:
            writer.write_batch(pa.RecordBatch.from_pydict(told, _SCHEMA))
        yield self.unit, sink.getvalue()

    def _highest(
        self, batch: pa.RecordBatch, millis: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> Iterator[tuple[str, int]]:
        at = batch.schema.get_field_index(ORIGIN)
        if at < 0 or batch.column(at).null_count:
            yield _ANY, int(millis[valid].max())
            return
        places, names = self._records.partitions(batch.column(at).to_numpy()[valid])
        highest = np.full(len(names), np.iinfo(np.int64).min)
        np.maximum.at(highest, places, millis[valid])
        for place in np.unique(places).tolist():
            yield names[place], int(highest[place])

    def _tell(self, part: str, number: int) -> None:
        self.numbers[part] = self.step.both(self.numbers.get(part), number)


def seen(step: BoundObserve, parts: Iterable[pa.Table]) -> dict[str, int]:
    """What the tasks tell together, by depot partition."""
    known: dict[str, int] = {}
    for rows in parts:
        for told in rows.to_pylist():
            part = told["part"]
            known[part] = step.both(known.get(part), told["number"])
    return known
