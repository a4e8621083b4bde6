"""A file opened by Python whose every write goes through ``os``."""

from __future__ import annotations

import io
import os
from typing import Any

__all__ = ["RawFile"]


class RawFile(io.RawIOBase):
    """A file whose every write is a call of ``os``, so that it is seen."""

    def __init__(self, file: Any, mode: str) -> None:
        flags = os.O_RDWR if "+" in mode else os.O_WRONLY
        flags |= {"w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL}.get(mode[0], 0)
        flags |= os.O_CREAT | os.O_APPEND if "a" in mode else 0
        self.name = file
        self._fd = os.open(file, flags | os.O_CLOEXEC, 0o666)
        if "a" in mode:
            os.lseek(self._fd, 0, os.SEEK_END)

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def readable(self) -> bool:
        """Asked by the buffer."""
        return True

    def writable(self) -> bool:
        """Asked by the buffer."""
        return True

    def seekable(self) -> bool:
        """Asked by the buffer."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read."""
        data = os.read(self._fd, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        """Write."""
        return os.write(self._fd, data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move."""
        return os.lseek(self._fd, offset, whence)

    def truncate(self, size: int | None = None) -> int:
        """Cut."""
        size = self.tell() if size is None else size
        os.ftruncate(self._fd, size)
        return size

    def close(self) -> None:
        """Close."""
        if not self.closed:
            try:
                super().close()
            finally:
                os.close(self._fd)
