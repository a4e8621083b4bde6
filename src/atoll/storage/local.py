"""Objects as files below one folder of a local (or network-mounted) disk.

Create-if-absent is a hard link: the data is written to a temporary file and fsynced, then linked
to its name, which fails if the name is taken, then the folder is fsynced. So a name either stands
for all of its bytes or does not exist, whatever crashes when.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from atoll.errors import NotFoundError, StorageError
from atoll.storage.objects import ObjectExistsError, check_name

_TEMPORARY = ".tmp-"
_SWEEPS_MAX = 5


class LocalStore:
    """An :class:`~atoll.storage.objects.ObjectStore` on a folder, made when first written to.

    Args:
        root: The folder. It is all that is kept, so a store can be pickled.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def __repr__(self) -> str:
        """Name the folder."""
        return f"LocalStore({str(self.root)!r})"

    @property
    def at_once(self) -> int:
        """One: a disk is as busy with one."""
        return 1

    def path(self, name: str) -> Path:
        """The file that holds (or would hold) the object."""
        return self.root / check_name(name)

    def create(self, name: str, data: bytes) -> None:
        """Create the object whole, or raise ObjectExistsError and leave the one there."""
        path = self.path(name)
        with storage_errors(path):
            make_folder(path.parent)
            for left in reversed(range(_SWEEPS_MAX)):
                temporary = path.with_name(_TEMPORARY + secrets.token_hex(8))
                try:
                    _write_durably(temporary, data)
                    os.link(temporary, path)
                    break
                except FileExistsError as error:
                    raise ObjectExistsError("the object exists already", file=str(path)) from error
                except FileNotFoundError:
                    if not left:  # else somebody swept it away before it was linked
                        raise
                finally:
                    _drop(temporary)
            fsync_folder(path.parent)

    def size(self, name: str) -> int:
        """How many bytes the object has, or NotFoundError."""
        return self._about(name).st_size

    def sizes(self, prefix: str) -> dict[str, int]:
        """The names below a folder, sorted, each with its bytes; without what goes meanwhile."""
        found = {}
        for name in self.list(prefix):
            with contextlib.suppress(NotFoundError):
                found[name] = self.size(name)
        return found

    def stamp(self, name: str) -> Hashable:
        """The inode and the time of the object, or NotFoundError."""
        about = self._about(name)
        return about.st_ino, about.st_mtime_ns

    def folders(self, prefix: str) -> builtins.list[str]:
        """The last parts of the folders right below a folder, sorted."""
        folder = self.path(prefix) if prefix else self.root
        with storage_errors(folder):
            try:
                with os.scandir(folder) as entries:
                    return sorted(each.name for each in entries if each.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def delete_all(self, prefix: str) -> None:
        """Delete the folder, as far as it can be."""
        shutil.rmtree(self.path(prefix), ignore_errors=True)

    def stage(self, name: str, data: bytes) -> None:
        """Write a uniquely named object that need not survive its writer: it is not synced."""
        path = self.path(name)
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def file(self, name: str) -> Path:
        """The object's own file."""
        return self.path(name)

    def fetch(self, names: Sequence[str]) -> None:
        """Nothing to do: files are here."""

    def list_after(self, prefix: str, after: str | None) -> builtins.list[str]:
        """The names below a folder that sort after one of them, sorted."""
        return [name for name in self.list(prefix) if after is None or name > after]

    def scratch(self, name: str) -> Path:
        """The file itself."""
        return self.path(name)

    def create_from(self, name: str, file: Path) -> None:
        """Link a file, which is synced already, to the object's name, or ObjectExistsError."""
        path = self.path(name)
        with storage_errors(path):
            make_folder(path.parent)
            try:
                os.link(file, path)
            except FileExistsError as error:
                raise ObjectExistsError("the object exists already", file=str(path)) from error
            _drop(file)
            fsync_folder(path.parent)

    def beginning(self, name: str, length: int) -> bytes:
        """The object's first bytes, or NotFoundError."""
        path = self.path(name)
        with storage_errors(path):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFoundError("no such object", file=str(path)) from error
            try:
                return os.pread(descriptor, length, 0)
            finally:
                os.close(descriptor)

    def unfinished(self) -> builtins.list[str]:
        """The names of unfinished files, sorted."""
        found = self.root.rglob(f"{_TEMPORARY}*")
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def sweep(self, prefix: str) -> int:
        """Delete the unfinished files that killed processes left below a folder; returns how many.

        Whoever is just creating an object there notices, and writes it once more.
        """
        swept = 0
        for folder, _, names in os.walk(self.path(prefix)):
            for name in names:
                if name.startswith(_TEMPORARY):
                    _drop(Path(folder) / name)
                    swept += 1
        return swept

    def write(self, name: str, data: bytes) -> None:
        """Write a uniquely named object, fsynced with its folder."""
        path = self.path(name)
        with storage_errors(path):
            make_folder(path.parent)
            try:
                _write_durably(path, data)
                fsync_folder(path.parent)
            except OSError:
                _drop(path)  # nobody will name it; a full disk needs the space
                raise

    def link(self, name: str, other: str) -> None:
        """Give an object another name too, durably; nothing where it has it.

        Deleting the one name leaves the object under the other.

        Raises:
            ObjectExistsError: When another object has that name.
        """
        source, target = self.path(name), self.path(other)
        with storage_errors(target):
            make_folder(target.parent)
            try:
                os.link(source, target)
            except FileExistsError as error:
                if not target.samefile(source):
                    raise ObjectExistsError("another object exists", file=str(target)) from error
            fsync_folder(target.parent)

    def settle(self, name: str) -> None:
        """Fsync the object and every folder above it in the store, on fresh descriptors."""
        path = self.path(name)
        with storage_errors(path):
            try:
                _fsync_file(path)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFoundError("no such object", file=str(path)) from error
            for folder in path.parents:
                fsync_folder(folder)
                if folder == self.root:
                    break

    def read(self, name: str) -> bytes:
        """The object's bytes, or NotFoundError."""
        path = self.path(name)
        with storage_errors(path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFoundError("no such object", file=str(path)) from error

    def exists(self, name: str) -> bool:
        """Whether the object exists: one system call. A disk that cannot say raises."""
        path = self.path(name)
        with storage_errors(path):
            try:
                os.stat(path)  # noqa: PTH116  # several times in every microbatch
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def list(self, prefix: str) -> list[str]:
        """The names below the folder ``prefix``, sorted; unfinished files are left out."""
        prefix = prefix.rstrip("/")
        folder = self.path(prefix) if prefix else self.root
        with storage_errors(folder):
            return sorted(_walk(str(folder), f"{prefix}/" if prefix else ""))

    def delete(self, name: str) -> None:
        """Delete the object if it is there. A crash may bring it back, never half of it."""
        path = self.path(name)
        with storage_errors(path), contextlib.suppress(NotADirectoryError):
            path.unlink(missing_ok=True)

    def _about(self, name: str) -> os.stat_result:
        path = self.path(name)
        with storage_errors(path):
            try:
                return os.stat(path)  # noqa: PTH116  # several times in every microbatch
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFoundError("no such object", file=str(path)) from error


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


_durable_folders: dict[Path, tuple[int, int]] = {}
"""Folders whose names this process knows to be durable, with the inodes that had them."""

_FOLDERS_KEPT = 4_096
"""When as many are known, it begins anew: most of those then are of what was deleted since."""


def make_folder(folder: Path) -> None:
    """Make the folder and its parents, durably (each entry's parent is fsynced).

    A folder that is there already may not be durable yet: another process, or an fsync that
    failed, may have left it so. The first use in a process makes sure.
    """
    found = _inode(folder)
    if found is not None and _durable_folders.get(folder) == found:
        return
    if found is None:
        make_folder(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)  # what lies there may be read as code by whoever runs it
        fsync_folder(folder.parent)
    else:
        # whoever may not read the folder above has not made this one
        with contextlib.suppress(PermissionError):
            fsync_folder(folder.parent)
    found = _inode(folder)
    if found is not None:
        if len(_durable_folders) >= _FOLDERS_KEPT:
            _durable_folders.clear()
        _durable_folders[folder] = found


def _inode(folder: Path) -> tuple[int, int] | None:
    try:
        about = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (about.st_dev, about.st_ino) if stat.S_ISDIR(about.st_mode) else None


def _drop(path: Path) -> None:
    """Delete what is of no use any more; leaving it there harms nobody."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def fsync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fsync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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


def _walk(folder: str, prefix: str) -> Iterator[str]:
    """The names of the files below a folder, each with the prefix; paths would be slow here."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(_TEMPORARY):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
