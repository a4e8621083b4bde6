"""Rows on their way to a depot, from the task that has them to a file that a manifest names.

The rows of one reading task go as a whole to one unit's actor, which writes them as they came to a
file of their own: so the rows of a depot partition keep their order, over the tasks by the files'
names. Whatever the depot could refuse (a missing value, a partitioner of the user's that raises)
is found here, because rows of a commit that stands must not be refused any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.depot.partitioner import Custom, HashBy, Partitioner, Placer, Random
from atoll.engine.exchange.blobs import Blob, fetch
from atoll.engine.exchange.careful import Refusing, sift, tried
from atoll.engine.exchange.tally import PackCounts
from atoll.engine.program import AppendTerminal
from atoll.errors import AtollError, RecordsRefusedError
from atoll.microbatch.commits.objects import AppendedRows
from atoll.pstate.store.history import FileRef

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.storage.local import LocalStore
    from atoll.topology.declared import DepotDeclaration
    from atoll.topology.usercode import Rejects

__all__ = [
    "AppendPacker",
    "AppendWriter",
    "append_file",
    "append_folder",
    "partitioner_of",
    "write_durably",
]

_ROWS_PER_BATCH_MAX = 65_536


def partitioner_of(declared: DepotDeclaration) -> Partitioner:
    """How a declared depot spreads its records."""
    match declared.partition_by:
        case None:
            return Random()
        case str(field):
            return HashBy(field)
        case function:
            return Custom(function)


class AppendPacker:
    """Collects the rows of one ``append_to`` in one task, for the actor of one unit.

    Args:
        terminal: The step.
        unit: Whose actor writes the rows.
        rejects: Where a careful attempt sends the rows that the depot refuses; None in others.
    """

    def __init__(self, terminal: AppendTerminal, unit: int, rejects: Rejects | None = None) -> None:
        """An empty packer."""
        self.terminal = terminal
        self.refusing = None if rejects is None else Refusing(terminal, rejects)
        self.unit = unit
        self.batches: list[pa.RecordBatch] = []
        self.counts = PackCounts()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""
        if batch.num_rows:
            self.counts.taken += batch.num_rows
            self.batches.append(batch)

    def finish(self, only: int | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The rows as the depot will hold them, as one blob.

        Raises:
            RecordsRefusedError: When the depot would refuse a row.
            UserCodeError: When the depot's partitioner raises.
        """
        if self.refusing is not None:
            self._sift(self.refusing)
        self.counts.all_for(self.unit, sum(each.num_rows for each in self.batches))
        if not self.batches or only not in (None, self.unit):
            return
        sink = pa.BufferOutputStream()
        with (
            self.terminal.blamed(),
            pa.ipc.new_stream(sink, self.terminal.schema) as writer,
        ):
            for batch in self._checked():
                writer.write_batch(batch)
        yield self.unit, sink.getvalue()

    def _checked(self) -> Iterator[pa.RecordBatch]:
        terminal = self.terminal
        codec = RecordCodec(terminal.schema)
        placer = Placer(terminal.partitioner, terminal.schema, terminal.partitions, terminal.depot)
        for batch in self.batches:
            yield self._fitting(batch, codec, placer)

    def _sift(self, refusing: Refusing) -> None:
        """Keep the rows that the depot holds; the others are refused."""
        terminal = self.terminal
        codec = RecordCodec(terminal.schema)
        placer = Placer(terminal.partitioner, terminal.schema, terminal.partitions, terminal.depot)
        good: list[pa.RecordBatch] = []
        for batch in self.batches:
            rows = pa.Table.from_batches([batch])

            def take(first: int, stop: int, batch: pa.RecordBatch = batch) -> AtollError | None:
                part = batch.slice(first, stop - first)
                return tried(lambda: good.append(self._fitting(part, codec, placer)))

            with terminal.blamed():
                for position, error in sift(0, batch.num_rows, take):
                    refusing.refuse(rows, position, error)
        self.batches = good
        self.counts.aside = refusing.count

    def _fitting(self, batch: pa.RecordBatch, codec: RecordCodec, placer: Placer) -> pa.RecordBatch:
        terminal = self.terminal
        known = [name for name in terminal.schema.names if name in batch.schema.names]
        checked = codec.from_arrow(batch.select(known))
        if checked.refused_count:
            raise RecordsRefusedError(
                f"append_to has {checked.refused_count} of {batch.num_rows} rows that depot "
                f"{terminal.depot!r} does not hold: {checked.refusals[0].reason}",
                hint="filter such rows out with where(...), or fill in what is missing",
                target=terminal.depot,
            )
        placer.divide(checked.batch)
        return checked.batch


class AppendWriter:
    """Writes the rows that an actor received for depots.

    Args:
        program: The topology.
        spec: The job.
        token: The actor's own, which makes the names unique.
        store: Where the files go.
    """

    def __init__(self, program: Program, spec: JobSpec, token: str, store: LocalStore) -> None:
        """Nothing is taken yet."""
        self.program = program
        self.spec = spec
        self.token = token
        self.store = store
        terminals = program.jobs[spec.job].terminals
        self._depots = {
            each.tag: each.depot for each in terminals if isinstance(each, AppendTerminal)
        }
        self._taken: list[Blob] = []
        self.rows: Counter[int] = Counter()
        """How many rows were written, by tag."""

    def take(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Keep what is for depots; the other blobs."""
        others: list[Blob] = []
        for blob in blobs:
            (self._taken if blob[0] in self._depots else others).append(blob)
        return others

    def write(self) -> list[AppendedRows]:
        """Make the rows durable: a file for each reading task and step.

        Raises:
            StorageError: When the disk refuses.
        """
        written = []
        for tag, sequence, payload in self._taken:
            stream = fetch(payload) if isinstance(payload, str) else payload
            name = append_file(self.program, self.spec, (tag, sequence), self.token)
            rows = pa.ipc.open_stream(stream).read_all()
            self.rows[tag] += rows.num_rows
            file = write_durably(self.store, name, rows)
            written.append(AppendedRows(self._depots[tag], file))
        return sorted(written, key=lambda each: each.file.name)


def append_folder(module: str, topology: str) -> str:
    """Where a topology keeps the rows that it appends to depots, relative to the root."""
    return f"{module}/{topology}/appends"


def append_file(program: Program, spec: JobSpec, order: tuple[int, int], token: str) -> str:
    """A name that no other task run uses; names sort as the rows are to be appended.

    ``order`` are two small numbers, such as a step's tag and a task's sequence number.
    """
    folder = append_folder(program.module, program.topology)
    first, second = order
    place = f"{spec.job:04d}-{first:06d}-{second:09d}"
    return f"{folder}/{spec.id:020d}-{place}-{spec.epoch}-{spec.version}-{token}.arrow"


def write_durably(store: LocalStore, name: str, rows: pa.Table) -> FileRef:
    """Write rows as an Arrow file that outlives a power cut, and say how to check it.

    Raises:
        StorageError: When the disk refuses.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=_ROWS_PER_BATCH_MAX)
    data = sink.getvalue()
    store.write(name, data)
    return FileRef.of(name, data, rows.num_rows)
