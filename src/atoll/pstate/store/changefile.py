"""Change files: incremental logs and checkpoints, as Arrow IPC files.

One file of ``vnode`` (uint16), ``key`` and ``value`` (binary; null means deleted), sorted by
vnode and key. Any Arrow tool opens it and counts its rows; what the bytes of keys and values mean
only Atoll's codecs (:mod:`atoll.codec`) and the PState's schema in the deployment object say.
Who names such a file also names its size and CRC-32
(:class:`~atoll.pstate.store.history.FileRef`); both are checked before anything in it is believed.

A microbatch may change millions of entries, so nothing here runs once per entry in Python but
the joining and cutting of bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from atoll.errors import DamageError, TooLargeError
from atoll.pstate.store.history import FileRef, History

Part = tuple[int, Sequence[bytes], Sequence[bytes | None]]
"""(vnode, sorted keys, their new values; None means deleted)."""

SCHEMA = pa.schema([
    pa.field("vnode", pa.uint16(), nullable=False),
    pa.field("key", pa.binary(), nullable=False),
    pa.field("value", pa.binary()),
])  # fmt: skip

_BATCH_BYTES_MAX = 64 << 20
"""What is copied at once while a file is written, however large it becomes."""
_COLUMN_BYTES_MAX = 2**31 - 1
_CACHE_BYTES = 128 << 20


class FileSink(Protocol):
    """Where change files go: durable once ``write`` returns."""

    def write(self, name: str, data: bytes) -> None:
        """Store a new object under a name that nobody has used."""


def write_change_file(sink: FileSink, name: str, parts: Iterable[Part]) -> FileRef:
    """Write one change file.

    Args:
        sink: The object store of the root.
        name: A unique name relative to the root.
        parts: Per vnode, in ascending order of vnodes, its sorted keys and new values.

    Returns:
        The reference that a manifest carries.

    Raises:
        TooLargeError: When one key or value is too large for Arrow's binary (2 GiB).
    """
    stream = pa.BufferOutputStream()
    rows = 0
    with pa.ipc.new_file(stream, SCHEMA) as writer:
        for group in _groups(parts):
            batch = _batch(group)
            rows += batch.num_rows
            writer.write_batch(batch)
    data = stream.getvalue()
    sink.write(name, memoryview(data))  # type: ignore[arg-type]  # written, never kept
    return FileRef.of(name, data, rows)


def _groups(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Parts that fit together into one record batch, whose binary columns end at 2 GiB."""
    group: list[Part] = []
    size = 0
    for part in parts:
        for piece, piece_bytes in _pieces(part):
            if group and size + piece_bytes > _BATCH_BYTES_MAX:
                yield group
                group, size = [], 0
            group.append(piece)
            size += piece_bytes
    if group:
        yield group


def _pieces(part: Part) -> Iterator[tuple[Part, int]]:
    vnode, keys, values = part
    size = sum(map(len, keys)) + sum(map(len, filter(None, values)))
    if size <= _BATCH_BYTES_MAX or len(keys) <= 1:
        if size > _COLUMN_BYTES_MAX:
            raise TooLargeError(
                "one entry is larger than 2 GiB",
                hint="divide the value: a map or list in a PState is stored element by element",
                vnode=vnode,
            )
        yield part, size
        return
    half = len(keys) // 2
    yield from _pieces((vnode, keys[:half], values[:half]))
    yield from _pieces((vnode, keys[half:], values[half:]))


def _batch(group: list[Part]) -> pa.RecordBatch:
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for _, part_keys, part_values in group:
        keys += part_keys
        values += part_values
    counts = [len(part_keys) for _, part_keys, _ in group]
    vnodes = np.repeat(np.array([vnode for vnode, _, _ in group], np.uint16), counts)
    # From a buffer: pa.array(ndarray) imports pandas, which costs the first call a second.
    column = pa.Array.from_buffers(pa.uint16(), len(vnodes), [None, pa.py_buffer(vnodes)])
    columns = [column, pa.array(keys, pa.binary()), pa.array(values, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class ChangeFile:
    """A change file in memory, checked once and then read vnode by vnode.

    Args:
        path: Where the file lies, or its bytes.
        ref: Its size and CRC.

    Raises:
        DamageError: When the file is missing or is not what the reference says.
    """

    def __init__(self, path: Path | bytes, ref: FileRef) -> None:
        self.size = ref.size
        data = _checked_bytes(path, ref)
        try:
            with pa.ipc.open_file(pa.py_buffer(data)) as reader:
                if reader.schema != SCHEMA:
                    raise DamageError("a change file has another schema", file=ref.name)
                batches = [reader.get_batch(at) for at in range(reader.num_record_batches)]
        except pa.ArrowInvalid as error:
            raise DamageError(f"a change file cannot be read: {error}", file=ref.name) from error
        self._batches: list[tuple[npt.NDArray[np.uint16], pa.RecordBatch]] = [
            (_vnode_column(batch), batch) for batch in batches
        ]

    def vnodes(self) -> list[int]:
        """The vnodes that it names, ascending."""
        found = {int(vnode) for column, _ in self._batches for vnode in np.unique(column)}
        return sorted(found)

    def read(self, vnode: int) -> tuple[list[bytes], list[bytes | None]]:
        """The sorted keys of the vnode and their new values; both empty when it has none."""
        keys: list[Any] = []
        values: list[bytes | None] = []
        for column, batch in self._batches:
            start, end = np.searchsorted(column, [vnode, vnode + 1]).tolist()
            if start < end:
                keys += _cut_binary(batch.column(1), start, end)
                values += _cut_binary(batch.column(2), start, end)
        return keys, values


def _checked_bytes(path: Path | bytes, ref: FileRef) -> bytes:
    hint = (
        "restore the file from a backup of the root, or build the state again from the depots, by "
        "a module of another name that mirrors them"
    )
    try:
        data = path if isinstance(path, bytes) else path.read_bytes()
    except FileNotFoundError as error:
        raise DamageError("a change file is missing", hint=hint, file=ref.name) from error
    fault = ref.fault(data)
    if fault is not None:
        raise DamageError(f"a change file {fault}", hint=hint, file=ref.name)
    return data


def _cut_binary(array: pa.Array, start: int, end: int) -> list[bytes | None]:
    present, offsets_buffer, data = array.buffers()
    first = array.offset + start
    offsets = np.frombuffer(offsets_buffer, np.int32)[first : first + end - start + 1]
    joined = b"" if data is None else memoryview(data)[offsets[0] : offsets[-1]].tobytes()
    at = (offsets - offsets[0]).tolist()
    items: list[bytes | None] = [joined[low:high] for low, high in pairwise(at)]
    if present is not None and array.null_count:
        bits = np.unpackbits(np.frombuffer(present, np.uint8), bitorder="little")
        for index in np.flatnonzero(bits[first : first + end - start] == 0).tolist():
            items[index] = None
    return items


def _vnode_column(batch: pa.RecordBatch) -> npt.NDArray[np.uint16]:
    """Read in place: ``to_numpy`` imports pandas, which costs the first call a second."""
    column = batch.column(0)
    values = np.frombuffer(column.buffers()[1], np.uint16)
    return values[column.offset : column.offset + len(column)]


class _ChangeFileCache:
    """The change files read last: many vnodes open one after the other with the same files."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._files: OrderedDict[tuple[str, FileRef], ChangeFile] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path, ref: FileRef) -> ChangeFile:
        """The file, read and checked now or lately."""
        name = (str(path), ref)
        with self._lock:
            file = self._files.get(name)
            if file is not None:
                self._files.move_to_end(name)
                return file
        file = ChangeFile(path, ref)
        with self._lock:
            if name not in self._files:
                self._files[name] = file
                self._bytes += file.size
            while self._bytes > self._bytes_max and len(self._files) > 1:
                self._bytes -= self._files.popitem(last=False)[1].size
        return file


_cache = _ChangeFileCache(_CACHE_BYTES)


def read_vnode(
    history: History, ref: FileRef, vnode: int
) -> tuple[list[bytes], list[bytes | None]]:
    """The changes of one vnode in a change file of the committed log.

    Raises:
        DamageError: When the file is missing or is not what the reference says.
    """
    return _cache.get(history.open_file(ref), ref).read(vnode)


def rebuilt(history: History, pstate: str, vnode: int) -> dict[bytes, bytes]:
    """All entries of one vnode as of the history's commit, from the committed log alone.

    Raises:
        DamageError: When a commit or a file that it takes is missing or damaged.
    """
    found = history.rebuild(pstate, vnode)
    files = [ref for _, ref in found.logs]
    if found.checkpoint is not None:
        files.insert(0, found.checkpoint)
    entries: dict[bytes, bytes] = {}
    for ref in files:
        for key, value in zip(*read_vnode(history, ref, vnode), strict=True):
            if value is None:
                entries.pop(key, None)
            else:
                entries[key] = value
    return entries
