"""State for other tools: a PState as of a microbatch, or what commits changed of it, as Arrow.

Keys are columns, values are columns of Arrow's own types, and the schema's metadata say what it is
and of which moment. An export is read vnode by vnode, so however large a PState is, a few batches
are in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from atoll.errors import DamageError, NotFoundError, UsageError
from atoll.microbatch.commits.history import latest_commit
from atoll.schema import to_json
from atoll.views.export.files import format_named, write_file
from atoll.views.export.rows import changed_entries, state_entries
from atoll.views.export.shape import ExportShape

if TYPE_CHECKING:
    from atoll.microbatch.commits.history import CommitHistory
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.view import PStateView

__all__ = ["Export", "export_changes", "export_state"]

_BATCH_ROWS = 65_536
_BATCH_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Export:
    """Columns of a PState, to read in batches or to write to a file. Read as often as wanted.

    Made by ``app.pstate(...).export()`` and ``export_changes()``.

    Attributes:
        schema: The columns; its metadata say module, topology, PState, schema, microbatch and
            timeline.
        microbatch: As of which commit it is; of changes the last one.
    """

    schema: pa.Schema
    microbatch: int
    _rows: Callable[[], Iterator[pa.RecordBatch]]

    def __repr__(self) -> str:
        """Of which moment, and the columns."""
        return f"<export as of microbatch {self.microbatch}: {', '.join(self.schema.names)}>"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some ten thousand at a time, by vnode and key.

        Raises:
            UsageError: When the commit is not kept for as long as reading takes.
            DamageError: When the state cannot be read.
        """
        waiting: list[pa.RecordBatch] = []
        for batch in self._rows():
            waiting.append(batch)
            rows = sum(each.num_rows for each in waiting)
            if rows >= _BATCH_ROWS or sum(each.nbytes for each in waiting) >= _BATCH_BYTES:
                yield from self._joined(waiting)
                waiting = []
        if waiting:
            yield from self._joined(waiting)

    def to_table(self) -> pa.Table:
        """All of it in memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def write(self, file: Path | str, format: str | None = None) -> int:  # noqa: A002
        """Write it to a file, which is there whole or not at all; returns the number of rows.

        Args:
            file: Where; what is there is replaced.
            format: ``parquet`` or ``arrow`` (an Arrow file); else by the name's ending.

        Raises:
            UsageError: When the format is not clear, or the commit is not kept for so long.
            StorageError: When the disk refuses.
        """
        return write_file(Path(file), format_named(file, format), self.schema, self.batches())

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches).combine_chunks()
        for batch in table.to_batches():
            yield batch.replace_schema_metadata(self.schema.metadata)


def export_state(
    spec: PStateSpec, view: PStateView, history: CommitHistory, field: str | None
) -> Export:
    """A PState as of one commit.

    Args:
        spec: What it is.
        view: It as of that commit.
        history: The log as of that commit.
        field: Which values of a struct whose fields are stored apart, dotted where nested.

    Raises:
        UsageError: When there are several kinds of values and it is not said which.
    """
    shape = ExportShape.of(spec, field)
    about = {**_about(spec, history, field), "kind": "state"}
    schema = shape.schema.with_metadata(_metadata(about))

    def rows() -> Iterator[pa.RecordBatch]:
        with _kept(history):
            yield from state_entries(spec, view, shape)

    return Export(schema, history.commit_id, rows)


def export_changes(  # the range has two ends
    spec: PStateSpec, head: CommitHistory, after: int | None, up_to: int | None, field: str | None
) -> Export:
    """What the commits behind one, up to another one, wrote.

    Args:
        spec: What the PState is.
        head: The log as of the last commit.
        after: The commit before the first one; the earliest possible when None.
        up_to: The last one; the last there is when None.
        field: As for :func:`export_state`.

    Raises:
        UsageError: When they are not all kept, or there are several kinds of values.
    """
    first = head.commit.readable_from if after is None else after
    last = head.commit_id if up_to is None else up_to
    head.as_of(first)
    history = head.as_of(last)
    if first > last:
        raise UsageError(
            f"no microbatch is after {first} and not after {last}",
            hint="the changes are those of microbatches after the one, up to the other",
        )
    shape = ExportShape.of(spec, field)
    about = {**_about(spec, history, field), "kind": "changes", "after_microbatch": first}
    schema = shape.changes.with_metadata(_metadata(about))

    def rows() -> Iterator[pa.RecordBatch]:
        with _kept(history):
            for number in range(first + 1, last + 1):
                yield from changed_entries(spec, history.as_of(number), shape)

    return Export(schema, last, rows)


def _about(spec: PStateSpec, history: CommitHistory, field: str | None) -> dict[str, Any]:
    commit = history.commit
    return {
        "module": spec.module,
        "topology": spec.topology,
        "pstate": spec.name,
        "schema": json.dumps(to_json(spec.node)),
        "field": field or "",
        "microbatch": history.commit_id,
        "timeline": history.timeline,
        "committed_at_ms": commit.committed_at_ms,
    }


def _metadata(about: dict[str, Any]) -> dict[str, str]:
    """As texts under names that begin with ``atoll.``, as Parquet keeps them."""
    return {
        f"atoll.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in about.items()
    }


@contextmanager
def _kept(history: CommitHistory) -> Iterator[None]:
    """Say of what is gone that it was not kept for as long as reading took, if that is so."""
    try:
        yield
    except (DamageError, NotFoundError) as error:
        last = latest_commit(history.store, history.module, history.topology)
        if history.commit_id < last.readable_from:
            raise UsageError(
                f"microbatch {history.commit_id} was dropped while it was exported",
                hint="raise pstate.history.seconds above the time that the export takes",
            ) from error
        raise
