"""What the storage code asks of the operating system, seen and disturbed call by call.

An :class:`Interposer` replaces, in this process, every function through which files are changed.
It acts on calls on paths below one folder and lets all others pass. A call can be counted,
recorded with its data, refused with an errno, followed by SIGKILL instead of being executed, or
(an fsync) answered with success and not executed.

Calls are numbered from 1 in the order in which they begin. A forked child goes on with its
parent's interposer. What C code writes by itself (LMDB) is not seen.
"""

from __future__ import annotations

import builtins
import errno as errnos
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from rawfile import RawFile

__all__ = ["CHANGING", "Call", "Interposer", "Mark"]

WRITES = ("write", "writev", "pwrite")
SYNCS = ("fsync", "fdatasync")
CHANGING = (
    *("open", *WRITES, *SYNCS, "ftruncate", "truncate"),
    *("link", "symlink", "rename", "replace", "unlink", "remove", "mkdir", "rmdir"),
)
"""The functions of ``os`` that change files; an open counts when it creates, cuts or writes."""

_BY_DESCRIPTOR = (*WRITES, *SYNCS, "ftruncate")
_NAMED = ("link", "rename", "replace", "unlink", "remove", "rmdir", "truncate")
_TWO_PATHS = ("link", "symlink", "rename", "replace")
_CHANGING_FLAGS = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_RDWR
_os = {name: getattr(os, name) for name in (*CHANGING, "close", "dup", "dup2")}
_open_file = io.open


@dataclass
class Call:
    """One call that changes files, or syncs them.

    ``path`` and ``target`` are relative to the root. ``file`` tells files (and folders) apart:
    every open that creates one gets a new number, and links and renames keep it. A call that did
    not succeed has an ``error``; one that lied did nothing.
    """

    number: int
    kind: str
    path: str
    target: str = ""
    file: int = 0
    fd: int = -1
    offset: int = 0
    data: bytes = b""
    created: bool = False
    cut: bool = False
    lied: bool = False
    error: str = ""
    thread: int = field(default_factory=threading.get_ident)


@dataclass(frozen=True)
class Mark:
    """Something that happened between two calls, such as an append acknowledged."""

    what: str
    value: Any


@dataclass
class _Handle:
    """What a descriptor stands for."""

    path: str
    file: int


class Interposer:
    """Sees and disturbs the calls below a folder while its context is open.

    Args:
        root: The folder.
        exclude: Names directly below it that are left alone.

    Attributes:
        calls: How many calls have begun.
        trace: What was recorded: calls and marks, in the order in which they took effect.
        faults: How many calls were disturbed.
        sync_faults: The files whose fsync failed, and the descriptors used: to be proved unused.
    """

    def __init__(self, root: Path | str, exclude: tuple[str, ...] = ("local",)) -> None:
        self.root = os.path.realpath(root)
        self.exclude = exclude
        self.calls = 0
        self.faults = 0
        self.recording = False
        self.lying = False
        self.trace: list[Call | Mark] = []
        self.on_call: Callable[[Call], None] | None = None
        self.sync_faults: list[Call] = []
        self.reused: list[Call] = []
        self._kill_at = 0
        self._torn = False
        self._fail: tuple[int, float, int, tuple[str, ...]] | None = None
        self._handles: dict[int, _Handle] = {}
        self._files: dict[tuple[int, int], int] = {}
        self._failed_fds: set[int] = set()
        self._last_file = 0
        self._lock = threading.RLock()
        self._undo: list[tuple[Any, str, Any]] = []

    # -- what to do -----------------------------------------------------------------------------

    def record(self) -> None:
        """Keep every call from here on in the trace."""
        self.recording = True

    def mark(self, what: str, value: Any = None) -> None:
        """Note in the trace that something has happened."""
        with self._lock:
            if self.recording:
                self.trace.append(Mark(what, value))

    def kill_at(self, number: int, *, torn: bool = False) -> None:
        """SIGKILL this process instead of executing the call of that number.

        With ``torn`` a write writes the first half of its data before.
        """
        self._kill_at, self._torn = number, torn

    def kill_after(self, count: int) -> int:
        """The same at so many calls from now on; the number of that call."""
        with self._lock:
            self._kill_at = self.calls + count
            return self._kill_at

    def fail_at(
        self,
        number: int,
        error: int,
        times: int | None = 1,
        kinds: tuple[str, ...] = CHANGING,
    ) -> None:
        """Refuse the call of that number, and those after it.

        Args:
            number: The first call refused (of those kinds, the first from that number on).
            error: The errno.
            times: How many calls are refused; None: all until :meth:`clear`.
            kinds: Only calls of these.
        """
        with self._lock:
            self._fail = (number, float("inf") if times is None else times, error, kinds)

    def clear(self) -> None:
        """Refuse nothing any more, lie no more, kill no more."""
        with self._lock:
            self._fail, self._kill_at, self.lying = None, 0, False

    # -- the context ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Put every function in place of the system's."""
        mine = {name: partial(self._call, name) for name in CHANGING}
        mine |= {"close": self._close, "dup": self._dup, "dup2": self._dup2}
        originals = {id(function): name for name, function in _os.items()}
        for name, function in mine.items():
            self._patch(os, name, function)
        self._patch(io, "open", self._open_python)
        self._patch(builtins, "open", self._open_python)
        for module in [each for name, each in sys.modules.items() if name.startswith("atoll")]:
            for attribute, value in list(vars(module).items()):
                if id(value) in originals:  # an alias made at import
                    self._patch(module, attribute, mine[originals[id(value)]])
        return self

    def __exit__(self, *_: object) -> None:
        """Put the system's back."""
        for place, name, value in reversed(self._undo):
            setattr(place, name, value)
        self._undo.clear()

    def _patch(self, place: Any, name: str, value: Any) -> None:
        self._undo.append((place, name, getattr(place, name)))
        setattr(place, name, value)

    # -- descriptors ----------------------------------------------------------------------------

    def _close(self, fd: int) -> None:
        with self._lock:
            self._handles.pop(fd, None)
            self._failed_fds.discard(fd)
            _os["close"](fd)

    def _dup(self, fd: int) -> int:
        with self._lock:
            copy: int = _os["dup"](fd)
            if fd in self._handles:
                self._handles[copy] = self._handles[fd]
            return copy

    def _dup2(self, fd: int, copy: int, inheritable: bool = True) -> int:
        with self._lock:
            self._handles.pop(copy, None)
            _os["dup2"](fd, copy, inheritable)
            if fd in self._handles:
                self._handles[copy] = self._handles[fd]
            return copy

    def _relative(self, path: Any, dir_fd: int | None = None) -> str | None:
        """The path below the root, or None when it is not the interposer's concern."""
        if isinstance(path, int):
            return None
        text = os.fsdecode(os.fspath(path))
        if dir_fd is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)  # noqa: PTH118, PTH115
        text = os.path.abspath(text)  # noqa: PTH100
        if not text.startswith(self.root + os.sep):
            text = os.path.realpath(os.path.dirname(text)) + os.sep + os.path.basename(text)  # noqa: PTH119, PTH120
        if text == self.root:
            return "."
        if not text.startswith(self.root + os.sep):
            return None
        relative = text[len(self.root) + 1 :]
        return None if relative.split(os.sep, 1)[0] in self.exclude else relative

    def _file_of(self, fd_or_path: int | str, *, created: bool) -> int:
        """The number of the file; a file just created gets a new one."""
        try:
            found = os.stat(fd_or_path, follow_symlinks=isinstance(fd_or_path, int))  # noqa: PTH116
        except OSError:
            return 0
        inode = (found.st_dev, found.st_ino)
        if created or inode not in self._files:
            self._last_file += 1
            self._files[inode] = self._last_file
        return self._files[inode]

    # -- calls ----------------------------------------------------------------------------------

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            call = self._describe(name, args, kwargs)
            if call is None:
                return self._pass(name, args, kwargs)
            self.calls += 1
            call.number = self.calls
            if self.on_call is not None:
                self.on_call(call)
            if call.number == self._kill_at:
                self._die(call)
            self._refuse(call)
            if call.kind in SYNCS and self.lying:
                call.lied, result = True, None
                self.faults += 1
            else:
                result = self._execute(call, args, kwargs)
            if self.recording:
                self.trace.append(call)
            return result

    def _pass(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = _os[name](*args, **kwargs)
        if name == "open":
            relative = self._relative(args[0], kwargs.get("dir_fd"))
            self._handles.pop(result, None)
            if relative is not None:
                self._handles[result] = _Handle(relative, self._file_of(result, created=False))
        return result

    def _describe(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        """The call as it will be recorded; None when it is not below the root or harmless."""
        if name in _BY_DESCRIPTOR:
            return self._describe_descriptor(name, args)
        if name == "open" and not args[1] & _CHANGING_FLAGS:
            return None
        dir_fd = kwargs.get("dir_fd", kwargs.get("src_dir_fd"))
        first = args[1] if name == "symlink" else args[0]
        if name == "truncate" and isinstance(first, int):
            return self._describe_descriptor("ftruncate", args)
        path = self._relative(first, dir_fd)
        target = ""
        if name in _TWO_PATHS and name != "symlink":
            other = self._relative(args[1], kwargs.get("dst_dir_fd"))
            if path is None and other is None:
                return None
            path, target = path or f"../{os.fspath(first)}", other or f"../{os.fspath(args[1])}"
        return None if path is None else Call(0, name, path, target)

    def _describe_descriptor(self, name: str, args: tuple[Any, ...]) -> Call | None:
        fd = args[0] if isinstance(args[0], int) else args[0].fileno()
        handle = self._handles.get(fd)
        if handle is None:
            return None
        call = Call(0, name, handle.path, file=handle.file, fd=fd)
        if name in WRITES:
            call.data = b"".join(map(bytes, args[1])) if name == "writev" else bytes(args[1])
            call.offset = args[2] if name == "pwrite" else os.lseek(fd, 0, os.SEEK_CUR)
        elif name == "ftruncate":
            call.offset = args[1]
        return call

    def _execute(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path = os.path.join(self.root, call.path)  # noqa: PTH118
        opens = call.kind == "open"
        before = os.path.lexists(path) if opens else True
        if call.kind in SYNCS and call.fd in self._failed_fds:
            self.reused.append(call)
        if call.kind in _NAMED:
            call.file = self._file_of(path, created=False)
        if call.kind == "truncate":
            call.offset = args[1]
        try:
            result = _os[call.kind](*args, **kwargs)
        except OSError as error:
            call.error = errnos.errorcode.get(error.errno or 0, str(error))
            if self.recording:
                self.trace.append(call)
            raise
        if opens:
            call.created, call.fd = not before, result
            call.cut = bool(args[1] & os.O_TRUNC)
            call.file = self._file_of(result, created=call.created)
            self._handles[result] = _Handle(call.path, call.file)
        elif call.kind == "mkdir":
            call.file = self._file_of(path, created=True)
        elif call.kind in WRITES:
            call.data = call.data[:result]
        return result

    def _refuse(self, call: Call) -> None:
        if self._fail is None:
            return
        number, left, error, kinds = self._fail
        if call.number < number or call.kind not in kinds or left <= 0:
            return
        self._fail = (number, left - 1, error, kinds)
        self.faults += 1
        call.error = errnos.errorcode[error]
        if call.kind in SYNCS:
            self._failed_fds.add(call.fd)
            self.sync_faults.append(call)
        if self.recording:
            self.trace.append(call)
        raise OSError(error, os.strerror(error), os.path.join(self.root, call.path))  # noqa: PTH118

    def _die(self, call: Call) -> None:
        if self._torn and call.data:
            half = call.data[: len(call.data) // 2]
            if call.kind == "pwrite":
                _os["pwrite"](call.fd, half, call.offset)
            else:
                _os["write"](call.fd, half)
        os.kill(os.getpid(), signal.SIGKILL)

    # -- files opened by Python -----------------------------------------------------------------

    def _open_python(
        self, file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any
    ) -> Any:
        """``open``, with a file below the root that is written to going through ``os``."""
        if not set(mode) & set("wax+") or isinstance(file, int) or self._relative(file) is None:
            return _open_file(file, mode, buffering, *args, **kwargs)
        kwargs.pop("opener", None)
        raw = RawFile(file, mode)
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return raw if buffering == 0 else binary
        return io.TextIOWrapper(binary, *args, **kwargs)

    def operations(self) -> Iterator[Call]:
        """The recorded calls that took effect."""
        return (each for each in self.trace if isinstance(each, Call) and not each.error)
