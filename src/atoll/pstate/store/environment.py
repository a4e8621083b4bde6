"""The LMDB environments of this process: one per vnode store, opened on demand, few at a time.

An environment must not be opened twice in one process, closed or resized while a transaction
runs on it, or used across a fork. So every use goes through the cache: :meth:`acquire` hands out
an environment and counts its users, :meth:`release` gives it back; only idle ones are closed,
least recently used first. The limit follows the limit on open files.

A store is a cache of the committed log and runs without fsync. It is therefore trusted only
within one boot of the machine: a small file beside it names the boot, and a store of another
boot, or one that LMDB finds damaged, is dropped and rebuilt.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import resource
import shutil
import threading
import uuid
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import lmdb

from atoll.errors import StorageError
from atoll.pstate.store.store_file import (
    is_cut_short,
    is_sound,
    mark_open,
    store_error,
    suspicious,
    unmark,
)
from atoll.storage.boot import boot_id

MAP_BYTES = 1 << 30
_READERS_MAX = 512
_OPEN_FILES_EACH = 5
_OPEN_FILES_SPARED = 256
_OPEN_MAX = 4096
_DATA_FILE = "data.mdb"
_BOOT_FILE = "boot"
_TABLES = (b"data", b"reverse")
_UNREADABLE = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
)

_log = logging.getLogger(__name__)


class Environment:
    """One open LMDB environment with its two tables.

    Attributes:
        lmdb: The environment. Use it only between acquire and release.
        data: The table of entries.
        reverse: The table of reverse logs, keyed by (id, step).
    """

    __slots__ = ("data", "exclusive", "inode", "lmdb", "path", "reverse", "users")

    def __init__(self, path: str, map_bytes: int) -> None:
        """Open or create it."""
        self.path = path
        self.users = 0
        self.exclusive = False
        self.lmdb: Any = lmdb.open(
            path,
            map_size=map_bytes,
            max_dbs=len(_TABLES),
            max_readers=_READERS_MAX,
            max_spare_txns=0,  # a forked child would free the slots of spare ones, see after_fork
            sync=False,
            metasync=False,
            # Measured with 20,000 entries and 3,500 writes: writing dirty pages at commit beats
            # a writable map, whose page faults cost twice what the commit saves.
            writemap=False,
        )
        try:
            self.lmdb.reader_check()
            self.data, self.reverse = self._open_tables()
            self.inode = _inode(path)
        except BaseException:
            self.lmdb.close()
            raise

    def _open_tables(self) -> list[Any]:
        """In a write transaction: py-lmdb gives up handles that a read transaction opened."""
        with self.lmdb.begin(write=True) as transaction:
            return [self.lmdb.open_db(name, txn=transaction) for name in _TABLES]


class EnvironmentCache:
    """The open environments of this process.

    Args:
        open_max: How many may be open at once; from the limit on open files when None.
        map_bytes: The virtual size that a new environment starts with; it doubles when full.
    """

    def __init__(self, open_max: int | None = None, map_bytes: int = MAP_BYTES) -> None:
        self._open_max = open_max
        self._map_bytes = map_bytes
        self._reset()
        _caches.add(self)

    def _reset(self) -> None:
        self._open: OrderedDict[str, Environment] = OrderedDict()
        self._lock = threading.Lock()  # entered by itself: a condition costs twice as much
        self._changed = threading.Condition(self._lock)

    def acquire(self, path: str, *, check: bool = False) -> Environment:
        """The environment of that folder, opened if need be; give it back with release.

        Args:
            path: The folder of the store; created when it is missing.
            check: Whether to make sure that the folder still holds the files that are open
                (somebody may have deleted it).

        Raises:
            StorageError: When the folder cannot be used.
        """
        with self._lock:
            while True:
                environment = self._open.get(path)
                if environment is None:
                    environment = self._open_new(path)
                    break
                if environment.exclusive:
                    self._changed.wait()
                elif check and _inode(path) != environment.inode:
                    self._forget(environment)
                else:
                    self._open.move_to_end(path)
                    break
            environment.users += 1
            return environment

    def release(self, environment: Environment) -> None:
        """Give an environment back: the caller has no transaction on it any more."""
        with self._lock:
            environment.users -= 1
            if environment.exclusive:
                self._changed.notify_all()
            elif not environment.users and self._open.get(environment.path) is not environment:
                self._close(environment)

    def resize(self, environment: Environment, *, grow: bool) -> None:
        """Double the map, or (not ``grow``) take over the size that another process gave it.

        The caller has acquired the environment and has no transaction on it.
        """
        with self._lock:
            environment.users -= 1
            self._alone(environment)
            try:
                size = 2 * environment.lmdb.info()["map_size"] if grow else 0
                environment.lmdb.set_mapsize(size)
            except lmdb.Error as error:
                raise store_error(error, environment.path) from error
            finally:
                environment.exclusive = False
                environment.users += 1
                self._changed.notify_all()

    def discard(self, path: str) -> None:
        """Drop a store for good: it will be rebuilt from the committed log.

        The caller has released the environment.
        """
        with self._lock:
            environment = self._open.get(path)
            if environment is not None:
                self._close(self._alone(environment))
            try:
                _remove(path)
            except OSError as error:
                raise store_error(error, path) from error

    def leave(self, path: str) -> None:
        """Take a store's folder away from under a writer that stands still.

        Whoever has it open goes on with files that have no name any more, and finds out when it
        opens the store the next time.
        """
        _remove(path)

    def close(self, folder: str | os.PathLike[str] | None = None) -> None:
        """Close every environment that nobody uses, or those of them below a folder.

        An open one holds files and memory: LMDB keeps the pages of its largest transaction.
        """
        below = None if folder is None else f"{os.path.realpath(folder)}/"
        with self._lock:
            for path, environment in list(self._open.items()):
                if not environment.users and (below is None or path.startswith(below)):
                    self._close(environment)

    def _alone(self, environment: Environment) -> Environment:
        """Wait until nobody uses it, and keep others away."""
        while environment.exclusive:
            self._changed.wait()
        environment.exclusive = True
        while environment.users:
            self._changed.wait()
        return environment

    def _forget(self, environment: Environment) -> None:
        """Open another one in its place: its files have no name any more.

        Whoever uses it may be a writer that stands still, so nobody waits for that: the last one
        who gives it back closes it.
        """
        del self._open[environment.path]
        unmark(environment.path)
        if not environment.users:
            environment.lmdb.close()

    def _close(self, environment: Environment) -> None:
        known = self._open.get(environment.path)
        if known is environment:
            del self._open[environment.path]
        environment.lmdb.close()
        if known is None or known is environment:  # else the mark is that of another one
            unmark(environment.path)
        environment.exclusive = False
        self._changed.notify_all()

    def _open_new(self, path: str) -> Environment:
        if self._open_max is None:
            self._open_max = _open_limit()
        idle = (one for one in self._open.values() if not one.users and not one.exclusive)
        while len(self._open) >= self._open_max and (oldest := next(idle, None)):
            self._close(oldest)
            idle = (one for one in self._open.values() if not one.users and not one.exclusive)
        try:
            environment = _open_trusted(path, self._map_bytes)
        except (OSError, lmdb.Error) as error:
            raise StorageError(
                f"a vnode store cannot be opened: {error}",
                hint="check the space and the permissions of the local folder",
                folder=path,
            ) from error
        self._open[path] = environment
        return environment

    def say_goodbye(self) -> None:
        """Take this process's marks from the stores that are open."""
        for path in list(self._open):
            unmark(path)

    def after_fork(self) -> None:
        """Forget, in a forked child, what the parent opened, without closing it.

        Closing would free the slots that the parent's readers have in the files' lock table: a
        read under way would lose its protection, and the next one fail. LMDB's binding knows the
        fork, and leaves them alone when it is merely let go of. A store that another thread of
        the parent was using stays known to be open, and the child cannot open it.
        """
        self._reset()


@functools.cache
def shared_environments() -> EnvironmentCache:
    """The cache that everything in this process shares."""
    return EnvironmentCache()


def _open_trusted(path: str, map_bytes: int) -> Environment:
    """Open a store of this boot; drop one of another boot or a damaged one first."""
    boot = Path(path, _BOOT_FILE)
    if not _names_this_boot(boot):
        with _folder_lock(Path(path).parent):
            if not _names_this_boot(boot):
                _remove(path)
                Path(path).mkdir(parents=True, exist_ok=True)
                boot.write_text(boot_id(), encoding="ascii")
    try:
        problem = _problem(path)
        if problem is None:
            return _opened(path, map_bytes)
    except _UNREADABLE as error:
        problem = str(error)
    _log.warning("vnode store %s is damaged (%s); it will be rebuilt", path, problem)
    with _folder_lock(Path(path).parent):
        _remove(path)
        Path(path).mkdir(parents=True, exist_ok=True)
        boot.write_text(boot_id(), encoding="ascii")
    return _opened(path, map_bytes)


def _opened(path: str, map_bytes: int) -> Environment:
    mark_open(path)
    return Environment(path, map_bytes)


def _problem(path: str) -> str | None:
    """Why a store must not be mapped, if it must not."""
    file = f"{path}/{_DATA_FILE}"
    if is_cut_short(file):
        return "it is cut short"
    if suspicious(path) and not is_sound(file):
        return "what stands at a page is no page"
    return None


def _names_this_boot(boot: Path) -> bool:
    try:
        return boot.read_text(encoding="ascii") == boot_id()
    except (OSError, UnicodeDecodeError):
        return False


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Any:
    """Keep other processes from dropping or creating stores in this folder meanwhile."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove(path: str) -> None:
    """Take the folder away in one instant, then delete it at leisure."""
    doomed = f"{path}.dropped-{uuid.uuid4().hex}"
    with contextlib.suppress(FileNotFoundError):
        Path(path).rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(f"{path}/{_DATA_FILE}")  # noqa: PTH116  # on the path of every writer
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_limit() -> int:
    """Raise the soft limit on open files to the hard one; say how many stores that allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return _OPEN_MAX
    return max(16, min(_OPEN_MAX, (soft - _OPEN_FILES_SPARED) // _OPEN_FILES_EACH))


_caches: weakref.WeakSet[EnvironmentCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_caches):
        cache.after_fork()


def _at_exit() -> None:
    """A process that ends as it should has not died of its stores."""
    for cache in list(_caches):
        cache.say_goodbye()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
