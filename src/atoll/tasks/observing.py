"""Takes from the rows what a commit says of them: how far event time is, how many were dropped.

Each reading task boils its rows down to one number; the numbers of all tasks meet on one actor,
whose manifest tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.dataflow.event_time import event_millis
from atoll.tasks.exchange import Blob, fetch
from atoll.tasks.timed_terminals import ObserveTerminal

if TYPE_CHECKING:
    from atoll.tasks.program import JobProgram

__all__ = ["ObservePacker", "ObserveTaker"]

_SCHEMA = pa.schema([("number", pa.int64())])


class ObservePacker:
    """One observation in one task, for the actor of one unit."""

    def __init__(self, terminal: ObserveTerminal, unit: int) -> None:
        """Nothing is seen yet."""
        self.terminal = terminal
        self.unit = unit
        self.number: int | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch."""
        column = self.terminal.column
        if column is None:
            found = batch.num_rows
        else:
            millis, valid = event_millis(batch.column(column))
            if not valid.any():
                return
            found = int(millis[valid].max()) - self.terminal.delay_ms
        self.number = self.terminal.both(self.number, found)

    def finish(self, only: int | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The number, as a blob."""
        if not self.number and (self.number is None or self.terminal.column is None):
            return
        if only not in (None, self.unit):
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA) as writer:
            writer.write_batch(pa.RecordBatch.from_pydict({"number": [self.number]}, _SCHEMA))
        yield self.unit, sink.getvalue()


class ObserveTaker:
    """Takes the observations out of the blobs that an actor received."""

    def __init__(self, job: JobProgram) -> None:
        """Nothing is taken yet."""
        self._terminals = {e.tag: e for e in job.terminals if isinstance(e, ObserveTerminal)}
        self._numbers: dict[int, int] = {}

    def take(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Keep the numbers; the other blobs."""
        others: list[Blob] = []
        for tag, sequence, payload in blobs:
            if tag not in self._terminals:
                others.append((tag, sequence, payload))
                continue
            rows = fetch(payload) if isinstance(payload, str) else payload
            for number in pa.ipc.open_stream(rows).read_all().column(0).to_pylist():
                known = self._numbers.get(tag)
                self._numbers[tag] = self._terminals[tag].both(known, number)
        return others

    def watermarks(self) -> dict[str, int]:
        """How far each watermark would be by these rows alone."""
        return self._found(counts=False)

    def dropped(self) -> dict[str, int]:
        """How many rows lie in no open window and were dropped, by step."""
        return self._found(counts=True)

    def _found(self, *, counts: bool) -> dict[str, int]:
        return {
            each.name: self._numbers[tag]
            for tag, each in self._terminals.items()
            if tag in self._numbers and (each.column is None) == counts
        }
