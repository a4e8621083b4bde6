"""An append that was stored before the depot was migrated, and comes again after it.

What is remembered of it is the fingerprint of its records as they were sent, under the schema of
that time. Its sender may not know of the migration and send them just so again: then they are
read as that schema takes them, and the fingerprints are compared. Or the sender makes them as the
present schema wants them: then they are compared with what is stored, as the migration makes it,
without regard to their order, since they may lie in other depot partitions now.

Both ways find out only that an append is one sent again; anything else is decided as always.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked, Refusal
from atoll.ddl import parse_ddl
from atoll.depot.migration import DepotMigration, schema_at
from atoll.depot.producers.fingerprint import RecordsCrc
from atoll.depot.producers.table import Producer, ProducerMark
from atoll.errors import DepotError, ProducerError, UsageError, UserCodeError

Read = Callable[[int, int, int], pa.Table]
"""The records of a depot partition between two offsets, under the present schema."""

_READ_RECORDS = 65_536
_SUM_BYTES = 16


def stored_before(
    marks: Sequence[ProducerMark],
    producer: Producer,
    migrations: Sequence[DepotMigration],
    ddl: str,
    read: Read,
) -> Resent | None:
    """What a producer's number stands for, if that was stored before the last migration.

    Args:
        marks: What is remembered of the producer.
        producer: The producer and the number.
        migrations: Those of the depot.
        ddl: The present schema.
        read: Reads the depot.
    """
    wanted = (producer.epoch, producer.sequence)
    mark = next((each for each in marks if (each.epoch, each.sequence) == wanted), None)
    if mark is None or not mark.offsets:
        return None
    generation = sum(
        each.until is not None and all(start >= each.until[at] for at, start, _ in mark.offsets)
        for each in migrations
    )
    if generation == len(migrations):
        return None
    codec = RecordCodec(parse_ddl(schema_at(migrations, generation, ddl)))
    return Resent(mark, migrations[generation].id, codec, read)


class Resent:
    """Takes in the records of an append, and tells whether they are those that are stored.

    Args:
        mark: What is remembered of the append that is stored.
        migration: The id of the first migration that came since.
        codec: Reads records as they were when it was stored.
        read: Reads the depot.
    """

    def __init__(self, mark: ProducerMark, migration: str, codec: RecordCodec, read: Read) -> None:
        self.codec = codec
        self.offsets = {part: (start, end) for part, start, end in mark.offsets}
        self.count = sum(end - start for start, end in self.offsets.values())
        self.hint = (
            f"this number was stored before migration {migration!r} of the depot: send exactly the "
            "records of then, or what the migration makes of them; new records take the next number"
        )
        self._mark = mark
        self._read = read
        self._as_sent: RecordsCrc | None = RecordsCrc()
        self._refused_then = 0
        self._sum = 0
        self._rows = 0
        self._refused = 0

    def add(self, checked: Checked) -> None:
        """Go on with more records of the append; refused ones are told by their absence."""
        if self._as_sent is not None and checked.before is not None:
            self._as_sent.add(checked.before.batch)
            self._refused_then += checked.before.refused_count
        else:
            self._as_sent = None
        self._refused += checked.refused_count
        self._rows += checked.batch.num_rows
        if self._rows <= self.count:
            self._sum += _sum_of(checked.batch)

    def is_stored(self, *, keeping: bool = False) -> bool:
        """Whether the records so far are all of those that are stored, and no others.

        Args:
            keeping: Whether refused records do not count.
        """
        if (
            self._as_sent is not None
            and (keeping or not self._refused_then)
            and self._as_sent.value() == self._mark.crc
        ):
            return True
        whole = self._rows == self.count and (keeping or not self._refused)
        return whole and self._sum == self._stored_sum()

    def explained(self, error: ProducerError) -> ProducerError:
        """A conflict, with what the migration has to do with it."""
        return ProducerError(error.message, hint=self.hint, **error.context)

    def _stored_sum(self) -> int | None:
        """None when the records cannot be compared: they are trimmed, or the migration fails."""
        found = 0
        try:
            for part, (start, end) in self.offsets.items():
                for first in range(start, end, _READ_RECORDS):
                    last = min(first + _READ_RECORDS, end)
                    found += sum(map(_sum_of, self._read(part, first, last).to_batches()))
        except (DepotError, UserCodeError):
            return None
        return found


class TwoCodecs(RecordCodec):
    """Reads records as the present schema takes them, and as an earlier one does.

    Args:
        schema: The present one.
        before: Of the earlier one.
    """

    def __init__(self, schema: pa.Schema, before: RecordCodec) -> None:
        super().__init__(schema)
        self._before = before

    def __reduce__(self) -> tuple[Any, ...]:
        """By its parts."""
        return type(self), (self.schema, self._before)

    def from_rows(self, rows: Iterable[Any], first_line: int = 1) -> Checked:
        """As the codec's."""
        found = rows if isinstance(rows, list) else list(rows)
        before = self._before.from_rows(found, first_line)
        return replace(super().from_rows(found, first_line), before=before)

    def from_json_lines(self, data: bytes, first_line: int = 1) -> Checked:
        """As the codec's."""
        before = self._before.from_json_lines(data, first_line)
        return replace(super().from_json_lines(data, first_line), before=before)

    def from_cells(
        self, columns: Sequence[str], cells: Sequence[Sequence[str]], lines: Sequence[int]
    ) -> Checked:
        """As the codec's; columns of the earlier schema alone are refused row by row."""
        try:
            before = self._before.from_cells(columns, cells, lines)
        except UsageError:
            return super().from_cells(columns, cells, lines)
        try:
            return replace(super().from_cells(columns, cells, lines), before=before)
        except UsageError as error:
            refusals = [Refusal(line, error.message) for line in lines[:1]]
            return Checked(self.empty(), refusals, len(cells), before=before)

    def from_arrow(self, data: pa.Table | pa.RecordBatch, first_line: int = 1) -> Checked:
        """As the codec's."""
        before = self._before.from_arrow(data, first_line)
        return replace(super().from_arrow(data, first_line), before=before)


def _sum_of(batch: pa.RecordBatch) -> int:
    """A sum over the records, the same in any order."""
    return sum(
        int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=_SUM_BYTES).digest())
        for row in batch.to_pylist()
    )
