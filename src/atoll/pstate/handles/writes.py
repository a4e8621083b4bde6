"""What a user's function has written to one PState in one vnode and not handed on yet.

Where rows can be set aside, each runs behind a savepoint: what it wrote can be taken back alone,
also when reading a range made it flush on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from atoll.codec.keys.elements import successor
from atoll.errors import StateError
from atoll.pstate.handles.live import LiveValues
from atoll.pstate.spec import PStateSpec
from atoll.pstate.store.sizes import SIZES_COMPLETE, counter_key, size_of


class EntryWriter(Protocol):
    """What handles need of a vnode writer."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def put_many(self, keys: list[bytes], values: list[bytes | None]) -> None:
        """Set or remove entries."""

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries in key order."""


class _Remembering(dict[bytes, "bytes | None"]):
    """Unflushed writes that know what was there before the last savepoint."""

    __slots__ = ("before", "seen")

    def __init__(self, seen: Callable[[bytes], bytes | None]) -> None:
        """``seen`` gives the value that a key has now."""
        super().__init__()
        self.seen = seen
        self.before: dict[bytes, bytes | None] = {}

    def __setitem__(self, key: bytes, value: bytes | None) -> None:
        """Write, and remember what was there."""
        if key not in self.before:
            self.before[key] = self.seen(key)
        super().__setitem__(key, value)


class _Ended(dict[bytes, "bytes | None"]):
    """In place of what is written, and of the writer, when the rows of the vnode are done."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __contains__(self, key: object) -> bool:
        """Refuse to read."""
        raise self._over()

    def __setitem__(self, key: bytes, value: bytes | None) -> None:
        """Refuse to write."""
        raise self._over()

    def scan(self, *_: object, **__: object) -> Iterator[tuple[bytes, bytes]]:
        """Refuse to read."""
        raise self._over()

    def put_many(self, *_: object) -> None:
        """Refuse to write."""
        raise self._over()

    def _over(self) -> StateError:
        return StateError(
            f"a handle of PState {self._name!r} was used after the rows that it was made for",
            hint="use the handles that each call gets, and keep none of them",
            pstate=self._name,
        )


class Writes:
    """What all handles of one PState in one vnode have written and not flushed.

    Args:
        spec: The PState.
        writer: The vnode's.
        vnode: The vnode.
        handed: See :class:`~atoll.pstate.handles.live.LiveValues`; shared by the PStates of a step.
    """

    __slots__ = ("live", "spec", "unflushed", "vnode", "writer")

    def __init__(
        self, spec: PStateSpec, writer: EntryWriter, vnode: int, handed: set[int] | None = None
    ) -> None:
        self.spec = spec
        self.writer = writer
        self.vnode = vnode
        self.unflushed: dict[bytes, bytes | None] = {}
        self.live = LiveValues(self, set() if handed is None else handed)

    def get(self, key: bytes) -> bytes | None:
        """The value as the function sees it."""
        if key in self.unflushed:
            return self.unflushed[key]
        return self.writer.get(key)

    def flush(self) -> None:
        """Hand what was written to the writer."""
        self.live.write()
        if self.unflushed:
            keys = sorted(self.unflushed)
            values = [self.unflushed[key] for key in keys]
            self.unflushed = self._emptied()
            self.writer.put_many(keys, values)

    def savepoint(self) -> None:
        """What is written from now on can be taken back."""
        if not isinstance(self.unflushed, _Remembering):
            plain = self.unflushed
            self.unflushed = _Remembering(self.get)
            self.unflushed.update(plain)
        self.unflushed.before = {}

    def roll_back(self) -> None:
        """Take back what was written since the savepoint, also what was flushed meanwhile."""
        assert isinstance(self.unflushed, _Remembering), "there is a savepoint"
        self.live.undo_call()
        for key, value in self.unflushed.before.items():
            if self.writer.get(key) == value:
                self.unflushed.pop(key, None)
            else:
                dict.__setitem__(self.unflushed, key, value)
        self.unflushed.before = {}

    def close(self) -> None:
        """Flush, and refuse everything from now on.

        Raises:
            StateError: When something was changed in place that nobody sees any more.
        """
        self.live.end_call()
        self.live.check()
        self.flush()
        self.unflushed = self.writer = _Ended(self.spec.name)

    def _emptied(self) -> dict[bytes, bytes | None]:
        if not isinstance(self.unflushed, _Remembering):
            return {}
        fresh = _Remembering(self.get)
        fresh.before = self.unflushed.before
        return fresh

    def scan(
        self, low: bytes | None, high: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries in key order; flushes first."""
        self.flush()
        return self.writer.scan(low, high, reverse=reverse)

    def size(self, prefix: bytes) -> int | None:
        """How many elements the map or set at a prefix has; None where it must be counted."""
        if not self.spec.track_size:
            return None
        self.flush()
        if self.writer.get(SIZES_COMPLETE) is None:
            return None
        return size_of(self.writer.get(counter_key(prefix)))

    def clear(self, prefix: bytes) -> None:
        """Remove everything under a prefix."""
        high = successor(prefix) if prefix else None
        for key, _ in list(self.scan(prefix or None, high)):
            self.unflushed[key] = None
            self.live.drop(key)
