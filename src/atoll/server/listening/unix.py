"""A Unix socket: only its owner can connect, and the kernel says who does."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from atoll.errors import UsageError

__all__ = ["unix_listener"]


@contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """A listening socket that only this user can connect to; its file goes with it.

    Raises:
        UsageError: When there cannot be one at that path.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        _bind(listener, path)
        try:
            listener.listen(128)
            yield listener
        finally:
            with suppress(OSError):
                path.unlink()


def _bind(listener: socket.socket, path: Path) -> None:
    try:
        if _is_left(path):
            path.unlink()
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {path}: {error.strerror or error}",
            hint="choose another --socket, with a path of fewer than 100 characters in a folder "
            "that is there, or stop what holds it",
            socket=str(path),
        ) from None


def _is_left(path: Path) -> bool:
    """Whether a process that was killed left its socket there: nobody answers on it."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
