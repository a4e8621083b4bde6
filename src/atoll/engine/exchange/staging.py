"""Rows between two jobs of one attempt: Arrow files that the manifests name.

They live as long as the attempt, so they are not made durable: an attempt that lost one is run
again. Size and checksum are checked all the same, as of every file.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from atoll.errors import DamageError, NotFoundError
from atoll.pstate.store.history import FileRef
from atoll.storage.roots import RootStore

_ROWS_PER_BATCH_MAX = 65_536


def staging_folder(module: str, topology: str, microbatch: int) -> str:
    """The folder of a microbatch's staged rows, relative to the root."""
    return f"{module}/{topology}/staged/{microbatch:020d}"


def stage(store: RootStore, name: str, table: pa.Table) -> FileRef:
    """Write the rows under a name that no other task run uses."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_ROWS_PER_BATCH_MAX)
    data = sink.getvalue()
    store.stage(name, data)
    return FileRef.of(name, data, table.num_rows)


def read_staged(store: RootStore, ref: FileRef) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file, in order.

    Raises:
        DamageError: When the file is not what was written.
    """
    try:
        data = store.read(ref.name)
    except NotFoundError as error:
        raise DamageError("a file of staged rows is missing", file=ref.name) from error
    fault = ref.fault(data)
    if fault is not None:
        raise DamageError(f"a file of staged rows {fault}", file=ref.name)
    reader = pa.ipc.open_file(pa.BufferReader(data))
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)
