"""What can be told of a vnode store's file without mapping it, and of LMDB's errors.

LMDB maps its file. A page that the file has lost ends the process with SIGBUS when it is read,
and no error can be caught. So before a store is opened its length is compared with what its meta
pages say. Other damage LMDB mostly finds by itself, but a page that is none can end the process
as well. Each process therefore leaves a mark while it has a store open; once two have died with
it, the pages are looked through before the next one opens it. Nothing finds a changed byte within
the data of a page.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

from atoll.errors import StorageError

_META_AT = 16
_META = struct.Struct("<IIQQ")  # magic, version, address, map size
_MAGIC = 0xBEEFC0DE
_PAGE_BYTES_AT = _META_AT + _META.size
_LAST_PAGE_AT = _PAGE_BYTES_AT + 96  # behind the descriptions of two tables
_LAST_PAGE = struct.Struct("<QQ")  # last page in use, transaction
_META_PAGES = 2
_PAGE_BYTES_LEAST = 512
_PAGE_HEADER = struct.Struct("<QHHHH")  # number, pad, flags, lower, upper
_BRANCH, _LEAF, _TABLE = 1, 2, 2
_NODE = struct.Struct("<HHHH")  # low, high, flags, length of the key
_ROOT_IN_TABLE = 40
_NO_PAGE = 2**64 - 1
_MARK = "open."
_DEATHS_MAX = 2
_LOOKS_MAX = 3


def store_bytes(folder: str | Path) -> int:
    """How much room the store in a folder takes on the disk; 0 when there is none."""
    try:
        found = os.stat(f"{folder}/data.mdb")  # noqa: PTH116  # for every vnode of a microbatch
    except OSError:
        return 0
    return found.st_blocks * 512


def is_cut_short(path: str) -> bool:
    """Whether the file lacks pages that its newest meta page counts; False when it has none.

    A file that is not LMDB's at all is left to LMDB to refuse.

    Raises:
        OSError: When the file cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        first = os.pread(descriptor, _LAST_PAGE_AT + _LAST_PAGE.size, 0)
        if not first:
            return False  # a new store
        page_bytes = _page_bytes(first)
        second = os.pread(descriptor, _LAST_PAGE_AT + _LAST_PAGE.size, page_bytes)
        metas = [found for found in map(_meta, (first, second)) if found is not None]
        last_page = max(metas)[1] if metas else _META_PAGES - 1
        # asked last: another process may be making the file longer, never shorter
        return os.fstat(descriptor).st_size < (last_page + 1) * page_bytes
    finally:
        os.close(descriptor)


def _page_bytes(first: bytes) -> int:
    """The store's page size; the system's where the first page does not say."""
    if len(first) >= _PAGE_BYTES_AT + 4:
        found = int.from_bytes(first[_PAGE_BYTES_AT : _PAGE_BYTES_AT + 4], "little")
        if _PAGE_BYTES_LEAST <= found <= 1 << 16 and found & (found - 1) == 0:
            return found
    return os.sysconf("SC_PAGESIZE")


def _meta(page: bytes) -> tuple[int, int] | None:
    """(transaction, last page in use) of a meta page; None when it is none."""
    if len(page) < _LAST_PAGE_AT + _LAST_PAGE.size:
        return None
    if _META.unpack_from(page, _META_AT)[0] != _MAGIC:
        return None
    last_page, transaction = _LAST_PAGE.unpack_from(page, _LAST_PAGE_AT)
    return transaction, last_page


def is_sound(path: str) -> bool:
    """Whether every page of the tables is there and is a page.

    Somebody may be writing meanwhile: then it looks again, and believes it after some times.

    Raises:
        OSError: When the file cannot be read.
    """
    with Path(path).open("rb", buffering=0) as file:
        for _ in range(_LOOKS_MAX):
            pages = _Pages(file.fileno())
            if not pages.metas:
                return False
            if pages.all_sound():
                return True
            if _Pages(file.fileno()).metas == pages.metas:
                return False
    return True


class _Pages:
    """Walks the pages of a store, by their headers."""

    def __init__(self, descriptor: int) -> None:
        """Read the meta pages."""
        self.descriptor = descriptor
        self.page_bytes = _page_bytes(os.pread(descriptor, _LAST_PAGE_AT, 0))
        self.count = os.fstat(descriptor).st_size // self.page_bytes
        found = [(_meta(page), page) for page in map(self.read, range(_META_PAGES))]
        self.metas = sorted((meta, page) for meta, page in found if meta is not None)

    def all_sound(self) -> bool:
        """Whether the two tables of the newest meta page, and those they name, are sound."""
        newest = self.metas[-1][1]
        roots = [_root(newest[_PAGE_BYTES_AT + 48 * table :]) for table in (0, 1)]
        try:
            return self.sound(roots[0], tables=False) and self.sound(roots[1], tables=True)
        except struct.error:
            return False

    def read(self, number: int) -> bytes:
        """The bytes of a page."""
        return os.pread(self.descriptor, self.page_bytes, number * self.page_bytes)

    def sound(self, number: int, *, tables: bool, depth: int = 0) -> bool:
        """Whether a table's page and all below it are pages; with ``tables`` those it names too."""
        if number == _NO_PAGE:
            return True
        if not _META_PAGES <= number < self.count or depth > 64:  # noqa: PLR2004  # never so deep
            return False
        page = self.read(number)
        found, _, flags, lower, upper = _PAGE_HEADER.unpack_from(page)
        kind = flags & 0xF
        if found != number or kind not in (_BRANCH, _LEAF):
            return False
        if not _PAGE_HEADER.size <= lower <= upper <= self.page_bytes:
            return False
        places = memoryview(page)[_PAGE_HEADER.size : lower].cast("H").tolist()
        if any(not upper <= place < self.page_bytes for place in places):
            return False
        below = []
        for place in places if kind == _BRANCH or tables else ():
            low, high, more, key = _NODE.unpack_from(page, place)
            if kind == _BRANCH:
                below.append((low | high << 16 | more << 32, tables))
            elif more & _TABLE:
                below.append((_root(page[place + _NODE.size + key :]), False))
        return all(self.sound(each, tables=which, depth=depth + 1) for each, which in below)


def _root(table: bytes) -> int:
    """The first page of a table, from its description."""
    return int.from_bytes(table[_ROOT_IN_TABLE : _ROOT_IN_TABLE + 8], "little")


def mark_open(folder: str) -> None:
    """Note that this process has the store open."""
    with contextlib.suppress(OSError):  # a full disk: the store can be read all the same
        Path(folder, f"{_MARK}{os.getpid()}").touch()


def unmark(folder: str) -> None:
    """Note that this process has closed the store."""
    with contextlib.suppress(OSError):
        Path(folder, f"{_MARK}{os.getpid()}").unlink()


def suspicious(folder: str) -> bool:
    """Whether processes have died again and again with the store open.

    Their marks are taken away, so that a store found sound begins anew.
    """
    dead = []
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208  # on the path of every opening
            pid = name.removeprefix(_MARK)
            if pid != name and pid.isdecimal() and not _lives(int(pid)):
                dead.append(name)
        if len(dead) >= _DEATHS_MAX:
            for name in dead:
                Path(folder, name).unlink(missing_ok=True)
    return len(dead) >= _DEATHS_MAX


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def store_error(error: BaseException, path: str) -> StorageError:
    """What a user is told when a local store fails."""
    return StorageError(
        f"a vnode store cannot be used: {error}",
        hint="make space in the local folder and look at its disk; the work is attempted again",
        folder=path,
        errno=getattr(error, "errno", None) or getattr(error, "code", None),
    )
