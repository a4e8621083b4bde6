"""One writer per vnode store, and nobody waits for ever for one that stands still.

LMDB's own writer lock is freed when its holder ends, but it cannot be waited for with a limit. A
holder that is stopped (SIGSTOP, a frozen container) would hold up every later attempt. So whoever
wants to write first takes a lock file beside the store, and waits for that a limited time. Then
it leaves the store to the holder: the folder is renamed away, and a new one is built from the
committed log. The holder may go on whenever it can: it writes into files that nobody opens any
more, and its output counts by its token as ever. So giving up too early costs a rebuild, and
nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from atoll.errors import StorageError

PATIENCE_SECONDS = 5.0
"""Longer than the Java process of a killed driver lives on, and its tasks with it."""

_LOOK_SECONDS = 0.01

_log = logging.getLogger(__name__)


class Patience:
    """How long one task waits for other writers, over all the stores that it opens.

    A holder that stands still mostly holds many stores. So the first wait uses up the patience,
    and the ones soon after it have none left.

    Args:
        seconds: How long to wait.
    """

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self.seconds = seconds
        self._until = float("-inf")

    def begin(self) -> float:
        """Until when, on the monotonic clock, a wait that begins now may last."""
        now = time.monotonic()
        if now > self._until + self.seconds:
            self._until = now + self.seconds
        return self._until


class WriterLock:
    """The right to write to one vnode store, held from construction to :meth:`release`.

    Args:
        path: The store's folder; the lock is the file ``<path>.writer``.
        patience: How long to wait for another writer.
        leave: Takes the store's folder away, when its writer stands still.

    Raises:
        StorageError: When the lock file cannot be made.
    """

    __slots__ = ("_descriptor", "_file")

    def __init__(self, path: str, patience: Patience, leave: Callable[[str], None]) -> None:
        """Wait for the lock, or leave the store to whoever holds it."""
        self._file = f"{path}.writer"
        while True:
            self._descriptor = _opened(self._file)
            try:
                if self._locked(patience):
                    return
                _log.warning("the writer of vnode store %s stands still: building it anew", path)
                leave(path)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._file)  # noqa: PTH108  # as below
            except BaseException:
                self.release()
                raise
            self.release()

    def release(self) -> None:
        """Let others write. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _locked(self, patience: Patience) -> bool:
        """Whether it was obtained; False when the holder stands still."""
        until: float | None = None
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                until = patience.begin() if until is None else until
                if time.monotonic() >= until:
                    return False
                time.sleep(_LOOK_SECONDS)
            else:
                if self._is_current():
                    return True
                self._reopen()
                until = None  # somebody else left the store: there is a new one, and new patience
                continue
            if not self._is_current():
                self._reopen()
                until = time.monotonic() + patience.seconds

    def _reopen(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        self._descriptor = _opened(self._file)

    def _is_current(self) -> bool:
        """Whether the file locked is still the one of that name."""
        try:
            named = os.stat(self._file)  # noqa: PTH116  # on the path of every writer
        except FileNotFoundError:
            return False
        held = os.fstat(self._descriptor)
        return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _opened(file: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        try:
            return os.open(file, flags, 0o644)
        except FileNotFoundError:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            return os.open(file, flags, 0o644)
    except OSError as error:
        raise StorageError(
            f"a vnode store cannot be locked: {error}",
            hint="check the space and the permissions of the local folder",
            file=file,
        ) from error
