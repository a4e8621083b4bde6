"""Folders for what a process needs while it lives, which nobody else can have put anything into.

A process that is killed cannot remove its folder. So each holds a lock in its own for as long as
it lives, whatever ends it, and whoever makes a folder later removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

_LOCK = "lock"
_TRIES_MAX = 10
_LENGTH_MAX = 60
"""Bytes of a folder's path, so that a socket in it can have an address."""


def private_temporary_folder() -> Path:
    """A folder in the system's temporary one that nobody else can have put anything into."""
    folder = Path(tempfile.gettempdir()) / f"atoll-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="atoll-"))
    ours = found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode)
    if ours and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return folder
    return Path(tempfile.mkdtemp(prefix="atoll-"))


def claim_folder(kind: str) -> Path | None:
    """A folder for this process and those that it forks, until the last of them has ended.

    Args:
        kind: What it is for; folders of that kind that nobody holds any more are removed.

    Returns:
        None where none can be made, or its path would be too long for a socket.
    """
    base = private_temporary_folder() / kind
    with contextlib.suppress(OSError):
        base.mkdir(mode=0o700, exist_ok=True)
        for left in base.iterdir():
            _remove_left(left)
        for _ in range(_TRIES_MAX):
            folder = Path(tempfile.mkdtemp(dir=base, prefix=""))
            if len(os.fsencode(folder)) > _LENGTH_MAX:
                folder.rmdir()
                return None
            if _hold(folder) is not None:
                return folder
    return None


def _remove_left(folder: Path) -> None:
    descriptor = _hold(folder)
    if descriptor is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _hold(folder: Path) -> int | None:
    """Take the lock of a folder; None when another process has it, or removes the folder."""
    try:
        path = folder / _LOCK
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
