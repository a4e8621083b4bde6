"""A segment file while it is written: prepared under another name, then published by a link.

The link fails when the number is taken, so of two writers one publishes it. In a bucket it is the
same: the file is prepared on this host, and created as an object. A file that has
failed to write or to sync is never written to or synced again: after a failed fsync the kernel may
have dropped the data and would report success the next time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from atoll.depot.segments.format import SegmentHeader, encode_header, header_block_bytes
from atoll.depot.segments.index import segment_file_name
from atoll.storage.local import make_folder, storage_errors
from atoll.storage.objects import ObjectExistsError
from atoll.storage.places import Place
from atoll.storage.roots import open_store

STAGING_FOLDER = "staging"
_BUFFERS_PER_CALL = 512
_datasync = getattr(os, "fdatasync", os.fsync)


class SegmentFile:
    """A segment of which only its writer knows, until :meth:`publish`.

    Args:
        folder: The depot's folder.
        writer: The number of its writer's claim.
        partitions: How many depot partitions the depot has.
        ddl: The schema's text.

    Attributes:
        position: How many bytes are written.
        durable_length: How many of them are fsynced.
        carried_bytes: How many of them only repeat what earlier segments say of producers.
    """

    def __init__(self, folder: Place, writer: int, partitions: int, ddl: str) -> None:
        """Open the file, leaving room for the header block."""
        self.folder = folder
        self._store = open_store(folder)
        name = f"{STAGING_FOLDER}/{writer:020d}-{secrets.token_hex(8)}.seg"
        self._temporary = self._store.scratch(name)
        self.path = self._temporary
        with storage_errors(self._temporary):
            make_folder(self._temporary.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._temporary, flags, 0o644)
            self.position = header_block_bytes(partitions, ddl)
            os.lseek(self._descriptor, self.position, os.SEEK_SET)
        self.durable_length = 0
        self.carried_bytes = 0

    def write(self, buffers: Sequence[bytes | pa.Buffer]) -> None:
        """Append the buffers. After an error the file must be closed.

        Raises:
            StorageError: When the disk refuses.
        """
        with storage_errors(self.path):
            for start in range(0, len(buffers), _BUFFERS_PER_CALL):
                some = buffers[start : start + _BUFFERS_PER_CALL]
                rest = [memoryview(buffer).cast("B") for buffer in some]
                self._write_all(rest)

    def sync(self) -> None:
        """Make all that is written durable. After an error the file must be closed.

        Raises:
            StorageError: When the disk refuses.
        """
        if isinstance(self.folder, Path):
            with storage_errors(self.path):
                _datasync(self._descriptor)
        self.durable_length = self.position

    def publish(self, header: SegmentHeader) -> None:
        """Write the header and give the file its number, durably.

        Raises:
            FileExistsError: When the number is taken; the file is then still unpublished.
            StorageError: When the disk refuses.
        """
        name = segment_file_name(header.number)
        with storage_errors(self.path):
            os.pwrite(self._descriptor, encode_header(header), 0)
            if isinstance(self.folder, Path):
                os.fsync(self._descriptor)
        try:
            self._store.create_from(name, self._temporary)
        except ObjectExistsError as error:
            raise FileExistsError(name) from error
        self.path = self._store.file(name)
        self.durable_length = self.position

    def close(self) -> None:
        """Close it; a file that was never published is deleted. May be called again.

        What was acknowledged is durable already, so that an error here costs nothing: what stays
        behind is deleted at the next opening.
        """
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if self.path == self._temporary:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def _write_all(self, rest: list[memoryview]) -> None:
        while rest:
            written = os.writev(self._descriptor, rest)
            self.position += written
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if rest:
                rest[0] = rest[0][written:]


def clean_staging(folder: Place, writer: int) -> None:
    """Delete what writers before this one left unpublished.

    When it has been fenced and does not know yet, a later one may be at work: its files stay.
    """
    if not isinstance(folder, Path):
        return  # what is unpublished lies in caches of hosts
    staging = folder / STAGING_FOLDER
    with storage_errors(staging):
        if staging.is_dir():
            for path in staging.iterdir():
                number, _, _ = path.name.partition("-")
                if not number.isdigit() or int(number) < writer:
                    path.unlink(missing_ok=True)


def sync_segment(folder: Place, number: int) -> None:
    """Make durable what an earlier writer, killed before its fsync, left in a segment.

    What is in a bucket is durable.
    """
    if not isinstance(folder, Path):
        return
    path = folder / segment_file_name(number)
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
