"""Rows that a function or a step refused, on their way to the dead-letter depot.

A row is taken out where it was refused: in a reading task or in an actor. Reading tasks send
what they took out to an actor, like rows, so that only what a winning task run found reaches a
manifest. The actor writes it down durably, and the commit appends it to the depot with everything
else of the microbatch, exactly once.

However many rows are bad, a task holds only a few megabytes of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.ddl import parse_ddl
from atoll.engine.exchange.appended import append_file, write_durably
from atoll.engine.exchange.blobs import Blob, fetch, park
from atoll.engine.exchange.provenance import Records
from atoll.engine.exchange.tally import PackCounts
from atoll.microbatch.accounts.entries import REJECTS
from atoll.microbatch.commits.objects import AppendedRows
from atoll.topology.declared import REJECTED_DDL

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.errors import AtollError
    from atoll.storage.roots import RootStore
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects, Step

_CHUNK_BYTES = 4 * 1024 * 1024
_RECORD_BYTES = 200
"""About what a rejected row takes beside its texts."""
_ORDER = 999_999
"""Behind all steps that append rows, in the files' names."""

_PACKED = pa.schema(
    [
        ("operator", pa.string()),
        ("origin", pa.int64()),
        ("error", pa.string()),
        ("line", pa.string()),
        ("row", pa.string()),
    ]
)


class _Unheard:
    """Drops rejected rows: they are reported elsewhere."""

    def add(self, step: Step, row: Row, origin: int | None, error: AtollError) -> None:
        """Drop it."""


UNHEARD: Rejects = _Unheard()


class RejectPacker:
    """Collects the rejected rows of one task.

    Args:
        program: The topology.
        spec: The job.
        sequence: The task's number: the actors write rejected rows down in turn.
    """

    def __init__(self, program: Program, spec: JobSpec, sequence: int = 0) -> None:
        """An empty packer."""
        self.program = program
        self.spec = spec
        self.unit = program.units[sequence % len(program.units)]
        self._records: list[tuple[str, int | None, str, str | None, str]] = []
        self._bytes = 0
        self._parked: list[str] = []
        self.counts = PackCounts()

    def add(self, step: Step, row: Row, origin: int | None, error: AtollError) -> None:
        """Take one row."""
        self.counts.taken += 1
        line = error.context.get("line")
        cause = error.__cause__ if line else None  # without a line it is Atoll that refused
        said = error.message if cause is None else f"{type(cause).__name__}: {cause}"
        text = row_text(row)
        self._records.append((step.title, origin, said, line or step.place, text))
        self._bytes += len(text) + len(said) + _RECORD_BYTES
        if self._bytes >= _CHUNK_BYTES:
            self._parked.append(park(self.program, self.spec.id, self._packed()))

    def finish(self, only: Collection[int] | None = None) -> Iterator[tuple[int, pa.Buffer]]:
        """The blobs, for one actor."""
        self.counts.all_for(self.unit, self.counts.taken)
        if only is not None and self.unit not in only:
            return
        for path in self._parked:
            yield self.unit, fetch(path)
        if self._records:
            yield self.unit, self._packed()

    def _packed(self) -> pa.Buffer:
        columns = [list(column) for column in zip(*self._records, strict=True)]
        self._records, self._bytes = [], 0
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _PACKED, strict=True)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _PACKED) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_PACKED))
        return sink.getvalue()


class RejectWriter:
    """Writes down the rejected rows that reach an actor, its own among them.

    Args:
        program: The topology.
        spec: The job.
        token: The actor's own, which makes the names unique.
        store: Where the files go.
    """

    def __init__(self, program: Program, spec: JobSpec, token: str, store: RootStore) -> None:
        """Nothing is taken yet."""
        self.program = program
        self.spec = spec
        self.token = token
        self.store = store
        self.own = None if program.dead_letter is None else RejectPacker(program, spec)
        self._taken: list[pa.Buffer | str] = []
        self.rows = 0
        """How many rows came from packing tasks."""

    def take(self, blobs: Iterable[Blob]) -> list[Blob]:
        """Keep rejected rows; the other blobs."""
        others: list[Blob] = []
        for tag, sequence, payload in blobs:
            if tag == REJECTS:
                self._taken.append(payload)
                rows = fetch(payload) if isinstance(payload, str) else payload
                self.rows += pa.ipc.open_stream(rows).read_all().num_rows
            else:
                others.append((tag, sequence, payload))
        return others

    def write(self) -> list[AppendedRows]:
        """Make them durable, as the depot will hold them.

        Raises:
            StorageError: When the disk refuses.
        """
        if self.own is None:
            return []
        records = Records(self.spec.ranges)
        written: list[AppendedRows] = []
        for payload in self._payloads(self.own):
            packed = pa.ipc.open_stream(payload).read_all()
            order = (_ORDER, len(written))
            name = append_file(self.program, self.spec, order, self.token)
            file = write_durably(self.store, name, self._table(packed, records))
            written.append(AppendedRows(str(self.program.dead_letter), file, "rejected"))
        return written

    def _payloads(self, own: RejectPacker) -> Iterator[pa.Buffer]:
        for payload in self._taken:
            yield fetch(payload) if isinstance(payload, str) else payload
        for _, payload in own.finish():
            yield payload

    def _table(self, packed: pa.Table, records: Records) -> pa.Table:
        found = [records.find(number) for number in packed.column("origin").to_pylist()]
        columns: dict[str, Any] = {
            "topology": [self.program.topology] * len(found),
            "operator": packed.column("operator"),
            "microbatch": [self.spec.id] * len(found),
            "depot": [each and each.depot for each in found],
            "depot_partition": [each and each.partition for each in found],
            "record_offset": [each and each.offset for each in found],
            "error": packed.column("error"),
            "line": packed.column("line"),
            "row": packed.column("row"),
        }
        return pa.Table.from_pydict(columns, schema=parse_ddl(REJECTED_DDL))


def row_text(row: Row) -> str:
    """A row as JSON: what JSON cannot hold as Python writes it."""
    values = row.asdict()
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False, default=repr)
    except (TypeError, ValueError):  # a key that is no text, or no finite number
        return json.dumps(_plain(values), ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {k if isinstance(k, str) else repr(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float() if not math.isfinite(value):
            return repr(value)
        case None | bool() | int() | float() | str():
            return value
    return repr(value)
