"""Moves packed rows from the task that packed them to the actor that owns them.

Small blobs travel inside the engine's exchange. Large ones are parked in a file of the local
folder (of the root, where several hosts share it) and travel by name, which spares the engine
from copying them several times. Such a file lives as long as the attempt and is not made durable:
an attempt that lost one is run again.
"""

from __future__ import annotations

import shutil
import struct
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from atoll.engine.exchange.staging import staging_folder
from atoll.errors import StorageError
from atoll.microbatch.outcome import ActorFailure
from atoll.storage.local import storage_errors
from atoll.storage.roots import open_store

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program

Blob = tuple[int, int, pa.Buffer | str]
"""A state step's tag, the sequence number of the task that packed it, the rows or their file."""


_FAILED = -1
"""The tag of a blob that carries a failure instead of rows."""

INLINE_BYTES_MAX = 64 * 1024
"""Blobs up to this size travel inside the exchange."""


_HEADER = struct.Struct("<iq?51x")
"""Tag, sequence, whether a file's name follows; 64 bytes, so that the rows stay aligned."""


def wrap(tag: int, sequence: int, payload: pa.Buffer | str) -> bytes:
    """A blob as one binary value; :func:`unwrap` reads it."""
    named = isinstance(payload, str)
    body = payload.encode() if isinstance(payload, str) else payload.to_pybytes()
    return _HEADER.pack(tag, sequence, named) + body


def unwrap(data: pa.Buffer) -> Blob:
    """What :func:`wrap` wrote; rows are not copied."""
    tag, sequence, named = _HEADER.unpack_from(data)
    body = data.slice(_HEADER.size)
    return tag, sequence, body.to_pybytes().decode() if named else body


def wrapped(program: Program, spec: JobSpec, place: tuple[int, int], rows: pa.Buffer) -> bytes:
    """As :func:`wrap` a blob of a tag and a sequence number, its rows parked when they are many."""
    return wrap(*place, carried(program, spec, rows))


def carried(program: Program, spec: JobSpec, rows: pa.Buffer) -> pa.Buffer | str:
    """Rows as they travel: themselves, or the name of the file where many are parked."""
    return park(program, spec.id, rows) if rows.size > INLINE_BYTES_MAX else rows


def wrapped_failure(sequence: int, failure: ActorFailure) -> bytes:
    """What a task has for an actor that failed before it had rows."""
    return wrap(_FAILED, sequence, pa.py_buffer(msgspec.msgpack.encode(failure)))


def failure_in(blobs: Iterable[Blob]) -> ActorFailure | None:
    """The first failure among what came for an actor."""
    for tag, _, payload in blobs:
        if tag == _FAILED and not isinstance(payload, str):
            return msgspec.msgpack.decode(payload, type=ActorFailure)
    return None


def park(program: Program, microbatch: int, rows: pa.Buffer) -> str:
    """Write a blob to a file that nobody else uses; its name."""
    if program.folders.scattered and not isinstance(program.root, Path):
        folder_name = staging_folder(program.module, program.topology, microbatch)
        name = f"{folder_name}/{uuid.uuid4().hex}.arrows"
        open_store(program.root).stage(name, rows.to_pybytes())
        return str(program.root / name)
    folder = _folder(program, microbatch)
    path = folder / f"{uuid.uuid4().hex}.arrows"
    with storage_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(rows)
    return str(path)


def fetch(path: str) -> pa.Buffer:
    """The blob of that name, without copying it.

    Raises:
        StorageError: When the file is gone: the attempt is over, or its worker's disk is lost.
    """
    if "://" in path:
        where, _, name = path.rpartition("/")
        return pa.py_buffer(open_store(where).read(name))
    try:
        with pa.memory_map(path) as file:
            return file.read_buffer()
    except OSError as error:
        raise StorageError(
            "packed rows are gone",
            hint="the microbatch is tried again; when it stays so, look at the disk",
            file=path,
        ) from error


def failure_file(program: Program, spec: JobSpec) -> Path:
    """Where tasks of a job that have no other way out leave the first failure of an attempt."""
    return _folder(program, spec.id) / f"failure-{spec.epoch}-{spec.version}-{spec.job}"


def clear(program: Program, microbatch: int) -> None:
    """Drop what attempts at a microbatch parked: it has committed."""
    shutil.rmtree(_folder(program, microbatch), ignore_errors=True)


def _folder(program: Program, microbatch: int) -> Path:
    """On a root that several hosts share the task and the actor may run on different ones."""
    if program.folders.scattered and isinstance(program.root, Path):
        return program.root / staging_folder(program.module, program.topology, microbatch)
    return program.local / "exchange" / program.module / program.topology / f"{microbatch:020d}"
