"""Objects as files below one folder of a local (or network-mounted) disk.

Create-if-absent is a hard link: the data is written to a temporary file and fsynced, then linked
to its name, which fails if the name is taken, then the folder is fsynced. So a name either stands
for all of its bytes or does not exist, whatever crashes when.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from atoll.errors import NotFoundError, StorageError
from atoll.storage.objects import ObjectExistsError, check_name

__all__ = ["LocalStore", "fsync_folder", "make_folder", "storage_errors"]

_TEMPORARY = ".tmp-"


class LocalStore:
    """An :class:`~atoll.storage.objects.ObjectStore` on a folder, made when first written to.

    Args:
        root: The folder. It is all that is kept, so a store can be pickled.
    """

    def __init__(self, root: Path | str) -> None:
        """Touch nothing yet."""
        self.root = Path(root)

    def __repr__(self) -> str:
        """Name the folder."""
        return f"LocalStore({str(self.root)!r})"

    def path(self, name: str) -> Path:
        """The file that holds (or would hold) the object."""
        return self.root / check_name(name)

    def create(self, name: str, data: bytes) -> None:
        """Create the object whole, or raise ObjectExistsError and leave the one there."""
        path = self.path(name)
        with storage_errors(path):
            make_folder(path.parent)
            temporary = path.with_name(_TEMPORARY + secrets.token_hex(8))
            try:
                _write_durably(temporary, data)
                os.link(temporary, path)
            except FileExistsError as error:
                raise ObjectExistsError("the object exists already", file=str(path)) from error
            finally:
                temporary.unlink(missing_ok=True)
            fsync_folder(path.parent)

    def write(self, name: str, data: bytes) -> None:
        """Write a uniquely named object, fsynced with its folder."""
        path = self.path(name)
        with storage_errors(path):
            make_folder(path.parent)
            _write_durably(path, data)
            fsync_folder(path.parent)

    def read(self, name: str) -> bytes:
        """The object's bytes, or NotFoundError."""
        path = self.path(name)
        with storage_errors(path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFoundError("no such object", file=str(path)) from error

    def exists(self, name: str) -> bool:
        """Whether the object exists: one system call."""
        return os.access(self.path(name), os.F_OK)

    def list(self, prefix: str) -> list[str]:
        """The names below the folder ``prefix``, sorted; unfinished files are left out."""
        folder = self.path(prefix.rstrip("/")) if prefix.rstrip("/") else self.root
        with storage_errors(folder):
            return sorted(_walk(folder, self.root))

    def delete(self, name: str) -> None:
        """Delete the object if it is there. A crash may bring it back, never half of it."""
        path = self.path(name)
        with storage_errors(path), contextlib.suppress(NotADirectoryError):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def storage_errors(path: Path | str) -> Iterator[None]:
    """Turn the operating system's errors into StorageError that names the file."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the disk refused: {error.strerror or error}",
            hint="check free space, permissions and the disk's health",
            file=str(path),
            errno=error.errno,
        ) from error


def make_folder(folder: Path) -> None:
    """Make the folder and its parents, durably (each new entry's parent is fsynced)."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    fsync_folder(folder.parent)


def fsync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_durably(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _walk(folder: Path, root: Path) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(_TEMPORARY):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), root)
        else:
            yield Path(entry.path).relative_to(root).as_posix()
