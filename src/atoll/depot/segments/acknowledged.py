"""How much of a depot's newest segment is acknowledged, for readers in other processes.

What is in a segment may be ahead of what was acknowledged: a frame that is written and not yet
synced, or one whose writer was fenced, may still be taken back. So each writer notes, after it has
acknowledged, up to where all is. The note is a lower bound whenever it is read: it is not synced
itself, since after a stop of the machine the next writer counts what is there. It has a file for
each claim, so that a writer that was fenced never takes back what a later one says.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path

from atoll.errors import DamageError
from atoll.logs import get_logger
from atoll.storage.local import make_folder, storage_errors

ACKNOWLEDGED_FOLDER = "acknowledged"
_NOTE = struct.Struct("<8sQQ")
_CRC = struct.Struct("<I")
_MAGIC = b"ATOLACK\n"
_BYTES = _NOTE.size + _CRC.size
_READS_MAX = 1000
"""A note may be read while it is written; nobody writes it as often as that in a row."""

_log = get_logger(__name__)


class AcknowledgedNote:
    """The note of one writer. For its thread alone.

    Args:
        folder: The depot's folder.
        writer: The number of the writer's claim.

    Raises:
        StorageError: When the disk refuses.
    """

    def __init__(self, folder: Path, writer: int) -> None:
        """An empty file, which says nothing yet."""
        self.path = _path(folder, writer)
        self._writer = writer
        with storage_errors(self.path):
            make_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o644)
        self._failed = False

    def write(self, segment: int, length: int) -> None:
        """Everything in the segment's first bytes is acknowledged, and all that is before it.

        A disk that refuses holds up nobody: readers elsewhere see the records later.
        """
        note = _NOTE.pack(_MAGIC, segment, length)
        try:
            os.pwrite(self._descriptor, note + _CRC.pack(zlib.crc32(note)), 0)
            self._failed = False
        except OSError as error:
            if not self._failed:
                self._failed = True
                _log.warning(
                    "readers in other processes see new records late",
                    file=str(self.path),
                    error=str(error),
                )

    def supersede(self) -> None:
        """Delete the notes of earlier writers: what they acknowledged lies in earlier segments."""
        with storage_errors(self.path):
            for other in self.path.parent.iterdir():
                if other.stem.isdecimal() and int(other.stem) < self._writer:
                    other.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; what it says stays true."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def read_note(folder: Path, writer: int) -> tuple[int, int] | None:
    """The segment's number and how many of its bytes are acknowledged; None when nothing is noted.

    Args:
        folder: The depot's folder.
        writer: The claim of the writer of the newest segment.

    Raises:
        DamageError: When the note is not as it was written.
    """
    path = _path(folder, writer)
    with storage_errors(path):
        for _ in range(_READS_MAX):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
            if not any(data):  # nothing is noted yet, or the machine stopped before it was kept
                return None
            note = data[: _NOTE.size]
            if len(data) == _BYTES and _CRC.pack(zlib.crc32(note)) == data[_NOTE.size :]:
                magic, segment, length = _NOTE.unpack(note)
                if magic == _MAGIC:
                    return segment, length
    raise DamageError(
        "the note of what is acknowledged of a depot is damaged",
        hint="delete the file: the next append writes it again",
        file=str(path),
    )


def check_notes(folder: Path) -> list[tuple[Path, str]]:
    """The notes in a depot's folder that are not as they were written, and what is wrong."""
    found = []
    for path in sorted((folder / ACKNOWLEDGED_FOLDER).glob("*")):
        try:
            read_note(folder, int(path.stem) if path.stem.isdecimal() else -1)
        except DamageError as error:
            found.append((path, error.message))
    return found


def _path(folder: Path, writer: int) -> Path:
    return folder / ACKNOWLEDGED_FOLDER / f"{writer:020d}"
