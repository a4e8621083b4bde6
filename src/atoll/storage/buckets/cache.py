"""Files of this host with the bytes of immutable objects, so that each is fetched once.

They are a cache: any of them may be deleted at any moment and is fetched again. They are not
synced, so those of an earlier start of the machine are not believed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
import time
from pathlib import Path

from atoll.storage.boot import boot_id

CACHE_VARIABLE = "ATOLL_CACHE_BYTES"
"""The environment variable for the bytes that the cache of one root may take on a host."""

_BYTES_MAX = 4 * 1024**3
_LOOK_SHARE = 8
_UNFINISHED = ".tmp-"
_USED_SECONDS = 60.0
"""Whoever asked for a file has opened it by then."""


class ObjectCache:
    """The cache of one root on this host; processes share it.

    Args:
        folder: Where it lies, made when it is first written to.
        bytes_max: What it may take; twice as much for a moment.
    """

    def __init__(self, folder: Path, bytes_max: int | None = None) -> None:
        given = os.environ.get(CACHE_VARIABLE, "")
        self.folder = folder / boot_id()
        self._bytes_max = bytes_max or (int(given) if given.isdecimal() else _BYTES_MAX)
        self._added = 0
        self._lock = threading.Lock()

    def find(self, key: str) -> Path | None:
        """The file of an object, if it is here; it stays longer for being asked for."""
        path = self.folder / key
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def add(self, key: str, data: bytes) -> Path:
        """Keep an object's bytes."""
        unfinished = self.scratch(key)
        unfinished.write_bytes(data)
        return self.take(key, unfinished)

    def take(self, key: str, file: Path) -> Path:
        """Keep a file of the same disk as an object's; it is moved."""
        path = self.folder / key
        size = file.stat().st_size
        path.parent.mkdir(parents=True, exist_ok=True)
        file.replace(path)
        with self._lock:
            self._added += size
            due = self._added > self._bytes_max // _LOOK_SHARE
            self._added = 0 if due else self._added
        if due:
            self._make_room()
        return path

    def scratch(self, key: str) -> Path:
        """A name for a file beside the object's, which nobody else uses."""
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.with_name(_UNFINISHED + secrets.token_hex(8))

    def drop(self, key: str) -> None:
        """Forget an object that is no more."""
        with contextlib.suppress(OSError):
            (self.folder / key).unlink(missing_ok=True)

    def drop_all(self, prefix: str) -> None:
        """Forget all objects below a prefix."""
        shutil.rmtree(self.folder / prefix, ignore_errors=True)

    def _make_room(self) -> None:
        """Delete what was asked for longest ago, and what is left of earlier starts."""
        for other in self.folder.parent.iterdir():
            if other != self.folder:
                shutil.rmtree(other, ignore_errors=True)
        found = []
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(OSError):
                    about = path.stat()
                    found.append((about.st_mtime, about.st_size, path))
        left = sum(size for _, size, _ in found)
        used = time.time() - _USED_SECONDS
        for at, size, path in sorted(found):
            if left <= self._bytes_max:
                return
            if at < used:
                with contextlib.suppress(OSError):
                    path.unlink()
                left -= size
