"""Files that only their owner reads: the tokens, the key of sessions, the log of changes.

They lie in the folder ``.access`` of the root, whose name no module can have; those of a root in an
object store in the local folder of the host that serves it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from atoll.errors import UsageError
from atoll.storage.local import fsync_folder, storage_errors
from atoll.storage.places import Place, local_base

__all__ = ["access_folder", "private_folder", "read_private", "write_private"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def access_folder(root: Place) -> Path:
    """Where a root keeps what is about access; secrets are never put into a bucket."""
    if isinstance(root, Path):
        return root / ".access"
    return local_base() / "access" / str(root).replace("/", "_")


def private_folder(folder: Path) -> Path:
    """The folder, made so that only its owner can look into it where it was not there."""
    with storage_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def read_private(path: Path) -> bytes | None:
    """A file's bytes; None when there is none.

    Raises:
        UsageError: When others may read or change it, or it is somebody else's.
        StorageError: When it cannot be read.
    """
    with storage_errors(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if found.st_mode & _OTHERS or found.st_uid not in (os.geteuid(), 0):
                raise UsageError(
                    f"others than its owner may use {path.name}",
                    hint=f"chmod 600 {path}, and see that it belongs to who runs the service",
                    file=str(path),
                )
            return file.read()


def write_private(path: Path, data: bytes) -> None:
    """Put a file in the place of another, whole or not at all, readable for its owner only."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with storage_errors(path):
        try:
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            fsync_folder(path.parent)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others from changing a file meanwhile."""
    private_folder(path.parent)
    with storage_errors(path):
        name = path.with_name(f".{path.name}.lock")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
