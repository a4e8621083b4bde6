"""Files of rows that a commit appends to depots: written by actors, named by their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.pstate.store.history import FileRef

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.storage.roots import RootStore

_ROWS_PER_BATCH_MAX = 65_536


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


def write_durably(store: RootStore, name: str, rows: pa.Table) -> FileRef:
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
