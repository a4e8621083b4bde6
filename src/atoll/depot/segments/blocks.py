"""Blocks: the records that one append left in one depot partition, as bytes with a checksum.

A block is one Arrow IPC record batch message (the schema is the depot's and is not repeated).
A :class:`BlockRef` says where in which file it lies and which of its rows are meant, so that a
task anywhere reads exactly its bytes and nothing else, and knows that they are the ones written.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.ipc

from atoll.ddl import parse_ddl
from atoll.depot.migration import DepotMigration, NotMigratedError, blamed, migrate
from atoll.errors import DamageError, StorageError
from atoll.storage.places import Place
from atoll.storage.roots import open_store

BLOCK_BYTES = 1024 * 1024
"""About how large a block may grow: a reader of few records reads at least one block."""
BLOCK_ROWS_MAX = 65_536


class BlockRef(msgspec.Struct, frozen=True, array_like=True):
    """A range of rows of one block.

    Attributes:
        file: The segment file, relative to the depot's folder.
        position: Where the block begins in it, in bytes.
        length: The block's length in bytes.
        crc: CRC-32 of those bytes.
        rows: How many rows the block holds.
        skip: How many of them to leave out at the beginning.
        take: How many to take after that.
        partition: The depot partition.
        offset: That of the block's first row.
        stored: The DDL that it was stored with where that is not the present one, or empty.
        generation: How many of the depot's migrations had come by then; -1 for all.
    """

    file: str
    position: int
    length: int
    crc: int
    rows: int
    skip: int
    take: int
    partition: int = 0
    offset: int = 0
    stored: str = ""
    generation: int = -1


class EncodedBlock(msgspec.Struct, frozen=True, array_like=True):
    """A block on its way to the disk: its bytes and what the frame header says of it."""

    partition: int
    rows: int
    data: pa.Buffer
    crc: int


def encode_blocks(parts: Iterable[tuple[int, pa.RecordBatch]]) -> list[EncodedBlock]:
    """The blocks of batches per depot partition, large batches cut into several."""
    return [
        encode_block(partition, piece) for partition, batch in parts for piece in _pieces(batch)
    ]


def encode_block(partition: int, batch: pa.RecordBatch) -> EncodedBlock:
    """One block of one batch, however large."""
    data = batch.serialize()
    return EncodedBlock(partition, batch.num_rows, data, zlib.crc32(data))


def read_block(
    folder: Place | str,
    ref: BlockRef,
    schema: pa.Schema,
    migrations: Sequence[DepotMigration] = (),
) -> pa.RecordBatch:
    """The rows that the reference means.

    Raises:
        DamageError: When the file is missing or its bytes are not the ones written.
        StorageError: When the disk fails.
        UserCodeError: When a migration fails on a record.
    """
    return read_blocks(folder, [ref], schema, migrations)[0]


def read_blocks(
    folder: Place | str,
    refs: Sequence[BlockRef],
    schema: pa.Schema,
    migrations: Sequence[DepotMigration] = (),
) -> list[pa.RecordBatch]:
    """The rows of several references, in their order; each file is opened once.

    Args:
        folder: The depot's folder.
        refs: Which rows.
        schema: The depot's present one.
        migrations: The depot's, which rows of older schemas go through.

    Raises:
        DamageError: When a file is missing or its bytes are not the ones written.
        StorageError: When the disk fails.
        UserCodeError: When a migration fails on a record.
    """
    store = open_store(Path(folder) if isinstance(folder, str) else folder)
    store.fetch([ref.file for ref in refs])
    batches = []
    open_file, descriptor = "", -1
    try:
        for ref in refs:
            if ref.file != open_file:
                if descriptor >= 0:
                    os.close(descriptor)
                    descriptor = -1
                descriptor = _open(store.file(ref.file), f"{folder}/{ref.file}")
                open_file = ref.file
            stored = parse_ddl(ref.stored) if ref.stored else schema
            batch = _read(descriptor, f"{folder}/{ref.file}", ref, stored)
            since = migrations[ref.generation :] if ref.generation >= 0 else ()
            batches.append(_present(batch, store.root.name, ref, schema, since))
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return batches


def _open(path: Path, where: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise DamageError(
            "a depot segment is missing",
            hint="was it trimmed while it was still needed, or deleted by hand?",
            file=where,
        ) from error
    except OSError as error:
        raise StorageError(
            f"a depot segment cannot be opened: {error.strerror}", file=where
        ) from error


def _present(
    batch: pa.RecordBatch,
    depot: str,
    ref: BlockRef,
    schema: pa.Schema,
    since: Sequence[DepotMigration],
) -> pa.RecordBatch:
    """The rows in the depot's present schema."""
    try:
        return migrate(batch, since, schema)
    except NotMigratedError as error:
        offset = ref.offset + ref.skip + error.row
        where = f"partition {ref.partition}, offset {offset}"
        raise blamed(error, depot, where, partition=ref.partition, offset=offset) from error


def _read(descriptor: int, where: str, ref: BlockRef, schema: pa.Schema) -> pa.RecordBatch:
    try:
        data = os.pread(descriptor, ref.length, ref.position)
    except OSError as error:
        raise StorageError(
            f"a depot segment cannot be read: {error.strerror}",
            file=where,
            position=ref.position,
        ) from error
    if len(data) != ref.length or zlib.crc32(data) != ref.crc:
        raise DamageError(
            "a block of records is damaged: its checksum does not match",
            hint="restore the file from a backup",
            file=where,
            position=ref.position,
        )
    batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    if ref.skip == 0 and ref.take == ref.rows:
        return batch
    return batch.slice(ref.skip, ref.take)


def _pieces(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    rows = batch.num_rows
    per_row = max(1, batch.nbytes // max(rows, 1))
    step = min(BLOCK_ROWS_MAX, max(1, BLOCK_BYTES // per_row))
    if rows <= step:
        return [batch]
    return [batch.slice(start, step) for start in range(0, rows, step)]
