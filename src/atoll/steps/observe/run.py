"""Takes from the rows what a commit says of them: how far event time is, how many were dropped.

Each reading task boils its rows down to a number per depot partition; the numbers of all tasks
meet on one actor, whose manifest tells them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.blobs import Blob, fetch
from atoll.engine.exchange.provenance import Records
from atoll.engine.exchange.tally import PackCounts
from atoll.steps.windows.event_time import event_millis
from atoll.steps.windows.terminals import ObserveTerminal
from atoll.topology.rows import ORIGIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.engine.program import JobProgram
    from atoll.microbatch.commits.objects import Ranges

__all__ = ["ObservePacker", "ObserveTaker"]

_SCHEMA = pa.schema([("part", pa.string()), ("number", pa.int64())])

_ANY = ""
"""The part of rows of which it is not known from which depot partition they came."""


class ObservePacker:
    """One observation in one task, for the actor of one unit.

    Args:
        terminal: The step.
        ranges: What the microbatch reads: by them rows know their depot partition.
        unit: Whose actor takes it.
    """

    def __init__(self, terminal: ObserveTerminal, ranges: Ranges, unit: int) -> None:
        """Nothing is seen yet."""
        self.terminal = terminal
        self.unit = unit
        self.numbers: dict[str, int] = {}
        self.counts = PackCounts()
        self._records = Records(ranges)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch."""
        self.counts.taken += batch.num_rows
        column = self.terminal.column
        if column is None:
            self._tell(_ANY, batch.num_rows)
            return
        millis, valid = event_millis(batch.column(column))
        if not valid.any():
            return
        for part, highest in self._highest(batch, millis, valid):
            self._tell(part, highest - self.terminal.delay_ms)

    def finish(self, only: int | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The numbers, as a blob."""
        told_of = self.terminal.column is not None or bool(self.numbers.get(_ANY))
        self.counts.all_for(self.unit, len(self.numbers) if told_of else 0)
        if self.terminal.column is None and not self.numbers.get(_ANY):
            return
        if not self.numbers or only not in (None, self.unit):
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
        self.numbers[part] = self.terminal.both(self.numbers.get(part), number)


class ObserveTaker:
    """Takes the observations out of the blobs that an actor received."""

    def __init__(self, job: JobProgram) -> None:
        """Nothing is taken yet."""
        self._terminals = {e.tag: e for e in job.terminals if isinstance(e, ObserveTerminal)}
        self._numbers: dict[int, dict[str, int]] = {}
        self.rows: Counter[int] = Counter()
        """How many numbers came, by tag."""

    def take(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Keep the numbers; the other blobs."""
        others: list[Blob] = []
        for tag, sequence, payload in blobs:
            if tag not in self._terminals:
                others.append((tag, sequence, payload))
                continue
            rows = fetch(payload) if isinstance(payload, str) else payload
            known = self._numbers.setdefault(tag, {})
            for told in pa.ipc.open_stream(rows).read_all().to_pylist():
                self.rows[tag] += 1
                part = told["part"]
                known[part] = self._terminals[tag].both(known.get(part), told["number"])
        return others

    def watermarks(self) -> dict[str, dict[str, int]]:
        """How far each watermark would be by these rows alone, by depot partition."""
        return self._found(counts=False)

    def dropped(self) -> dict[str, int]:
        """How many rows lie in no open window and were dropped, by step."""
        return {name: sum(numbers.values()) for name, numbers in self._found(counts=True).items()}

    def _found(self, *, counts: bool) -> dict[str, dict[str, int]]:
        return {
            each.name: self._numbers[tag]
            for tag, each in self._terminals.items()
            if tag in self._numbers and (each.column is None) == counts
        }
