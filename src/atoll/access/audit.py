"""The log of changes: who asked for what, when, and what came of it. It holds no secret.

A line of JSON for each change, in files of one process each, so that several processes on one root
never wait for each other. A file that has grown large is followed by another, and the oldest go
when there are too many. An entry names the route and its address, and of the body only what the
table of roles lists for that route: no record, no definition, no token.

What cannot be written down must not happen: when the disk refuses, further changes are refused too,
until it takes entries again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from atoll.access.files import access_folder, private_folder
from atoll.errors import StorageError
from atoll.logs import get_logger
from atoll.storage.places import Place

__all__ = ["AuditLog", "Change", "read_audit"]

FILE_BYTES_MAX = 8 << 20
FILES_MAX = 64
_SUFFIX = ".ndjson"

_log = get_logger(__name__)


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody asked for, and what came of it.

    Attributes:
        at: When, in UTC.
        who: The name of the caller; empty where it was not known.
        how: What it was known by.
        address: Where the request came from.
        action: The method and the address.
        route: The route, as the table of roles has it.
        outcome: ``done``, ``refused`` or ``failed``; ``broken off`` where nobody can tell.
        status: The status of the answer.
        request_id: As the answer's header ``x-request-id`` says.
        token: The id of the caller's token.
        given: What was asked for, of the members that are noted.
        milliseconds: How long it took.
    """

    at: str
    who: str
    how: str
    address: str
    action: str
    route: str
    outcome: str
    status: int
    request_id: str = ""
    token: str | None = None
    given: dict[str, Any] = {}
    milliseconds: int = 0


@dataclass(slots=True)
class _Open:
    """The file that is written to."""

    path: Path
    descriptor: int
    size: int = 0


@dataclass(slots=True)
class AuditLog:
    """Writes the log of one process.

    Args:
        folder: Where all files of the log lie.
        file_bytes_max: A file that has so many is followed by another.
        files_max: So many files are kept, of all processes.
    """

    folder: Path
    file_bytes_max: int = FILE_BYTES_MAX
    files_max: int = FILES_MAX
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: _Open | None = None
    _lost: int = 0

    @classmethod
    def of(cls, root: Place) -> AuditLog:
        """That of a root."""
        return cls(access_folder(root) / "audit")

    def check(self) -> None:
        """See that a change can be written down.

        Raises:
            StorageError: When the last could not, and it still cannot.
        """
        if not self._lost:
            return
        lost = self._lost
        said = Change(
            at=moment(time.time()),
            who="",
            how="",
            address="",
            action=f"{lost} entries could not be written",
            route="",
            outcome="failed",
            status=0,
        )
        with self._lock:
            try:
                self._write(said)
            except OSError as error:
                raise StorageError(
                    "no change is made while the log of changes cannot be written",
                    hint="give the root's disk room; then try again",
                    errno=error.errno,
                ) from None
            self._lost -= lost

    def note(self, change: Change) -> None:
        """Write an entry; when that fails, it is logged, and no further change is made."""
        with self._lock:
            try:
                self._write(change)
            except OSError as error:
                self._lost += 1
                _log.error("audit-not-written", error=str(error), change=change.action)

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            if self._open is not None:
                os.close(self._open.descriptor)
                self._open = None

    def _write(self, change: Change) -> None:
        line = msgspec.json.encode(change) + b"\n"
        found = self._open
        if found is None or found.size + len(line) > self.file_bytes_max:
            found = self._next()
        written = os.write(found.descriptor, line)
        found.size += written
        if written < len(line):
            os.ftruncate(found.descriptor, found.size - written)
            found.size -= written
            raise OSError(28, "no space left on device")

    def _next(self) -> _Open:
        if self._open is not None:
            os.close(self._open.descriptor)
            self._open = None
        try:
            private_folder(self.folder)
        except StorageError as error:
            raise OSError(error.context.get("errno"), error.message) from None
        name = f"{time.time_ns():020d}-{os.getpid()}{_SUFFIX}"
        path = self.folder / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._open = _Open(path, os.open(path, flags, 0o600))
        for old in _files(self.folder)[: -self.files_max]:
            old.unlink(missing_ok=True)
        return self._open


def read_audit(root: Place, limit: int, before: str | None = None) -> list[dict[str, Any]]:
    """The last entries of all processes, the latest first.

    Args:
        root: Whose.
        limit: So many at most.
        before: Only those before a moment, as entries write it.
    """
    found: list[dict[str, Any]] = []
    for file in _files(access_folder(root) / "audit"):
        lines: deque[dict[str, Any]] = deque(maxlen=limit)
        lines.extend(each for each in _entries(file) if before is None or each["at"] < before)
        found += lines
    found.sort(key=lambda each: each["at"], reverse=True)
    return found[:limit]


def moment(seconds: float) -> str:
    """A moment as entries write it: in UTC, such that their order is that of time."""
    whole, micros = divmod(int(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    """Those of a file; the last line of a killed process may be half of one."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return
    for line in data.splitlines():
        try:
            entry = msgspec.json.decode(line, type=Change)
        except msgspec.DecodeError:
            continue
        yield msgspec.to_builtins(entry)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{_SUFFIX}"))
