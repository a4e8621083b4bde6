"""Values that a user's function may change in place: what it does to them is written.

A leaf that is a list, a struct or a nested collection comes to the function as a plain list, dict
or set. While the function's call lasts, a place has one such object: reading it again gives the
same one, as with a dict of one's own. When the call is done, each object is compared with what
the store has of it, and written where it differs; so it makes no difference how it was changed.
An object that the function itself put in belongs to its place in the same way.

After the call the store holds values, not objects. An object that somebody still holds then must
not be changed any more: nobody would see it. It is looked at again, at the latest when the rows
of the vnode are done, and a change is an error.
"""

from __future__ import annotations

import copy
import marshal
from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from atoll.codec.detached import can_change
from atoll.codec.keys.elements import EMPTY_KEY, decode_element
from atoll.errors import StateError, kind_of_value

if TYPE_CHECKING:
    from atoll.pstate.handles.writes import Writes
    from atoll.pstate.shapes import Shape


ABSENT: Any = object()
"""Stands for no value."""

_CONTAINERS = (dict, list, set)
_MEMBERS = frozenset({bool, int, float, str, bytes, type(None)})
"""Most members of containers are of these types, which cannot be changed."""
_WITHOUT_REFERENCES = 2
"""The version of marshal's format that says nothing of which objects are the same."""
_SWEEP_MIN = 1_000
"""So many objects are held before those are let go that nobody else holds."""

_CHANGED_LATER = (
    "a value belongs to the call that read it or put it in: read it again in each call, or change "
    "a copy (copy.deepcopy(value)) and put that in"
)
_CHANGED_APART = "change what the state gives for its key, or put a value in when it is complete"


class _Object:
    """An object that stands for the value of a place."""

    __slots__ = ("own", "place", "print", "shape", "stored", "value")

    def __init__(self, place: bytes, shape: Shape, stored: bytes, value: Any, *, own: bool) -> None:
        """``own`` says that it was made from what is stored, not given by the function."""
        self.place = place
        self.shape = shape
        self.stored = stored
        self.value = value
        self.own = own
        self.print = fingerprint(self.value)

    def encoded(self) -> bytes | None:
        """The bytes to store; None when they are stored already."""
        if self.print is not None and self.print == fingerprint(self.value):
            return None
        assert self.shape.codec is not None, "a leaf"
        encoded = self.shape.codec.encode(self.value)
        return None if encoded == self.stored else encoded

    def wrote(self, encoded: bytes) -> None:
        """These bytes are stored now."""
        self.stored = encoded
        self.print = fingerprint(self.value)

    @property
    def flat(self) -> bool:
        """Whether nothing in the value can be changed but the value itself."""
        return self.shape.flat

    def changed(self) -> bool:
        """Whether it is no longer what is stored."""
        try:
            return self.encoded() is not None
        except StateError:  # it does not even fit
            return True

    def is_whole(self) -> bool:
        """Whether the object is just what would be read: with all fields, lists as lists."""
        assert self.shape.codec is not None, "a leaf"
        return bool(self.shape.codec.decode(self.stored) == self.value)


def fingerprint(value: Any) -> bytes | None:
    """Bytes that differ when the value was changed; None where only its codec can tell.

    Marshal is quick, and exact in what it takes: no dates, no Decimals, no classes of others.
    """
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        return None


class _Apart:
    """An object that was copied into the store, and should not change any more."""

    __slots__ = ("copy", "place", "value")
    flat = True

    def __init__(self, place: bytes, value: Any, copied: Any) -> None:
        self.place = place
        self.value = value
        self.copy = copied

    def changed(self) -> bool:
        """Whether it is no longer what was copied."""
        return bool(self.value != self.copy)


class LiveValues:
    """The objects that stand for values of one PState in one vnode.

    Args:
        writes: What the function has written there.
        handed: The ids of all objects, of any PState, that a place gave to the function during
            the call: put in at another place, such a one is copied.
    """

    __slots__ = ("_apart", "_handed", "_kept", "_kept_max", "_objects", "_objects_max", "_writes")

    def __init__(self, writes: Writes, handed: set[int]) -> None:
        self._writes = writes
        self._handed = handed
        self._objects: dict[bytes, _Object] = {}
        self._objects_max = _SWEEP_MIN
        self._apart: list[_Object | _Apart] = []
        """Changed during the call, they are an error."""
        self._kept: dict[int, _Object | _Apart] = {}
        """Of earlier calls: changed at all, they are an error."""
        self._kept_max = _SWEEP_MIN

    def read(self, place: bytes, shape: Shape, data: bytes | None = None) -> Any:
        """The object that stands for a place's value, ABSENT if it has none.

        Args:
            place: The leaf's key.
            shape: The leaf's.
            data: What the writer has there, where that is known.
        """
        known = self._objects.get(place)
        if known is not None:
            if known.own:
                return known.value
            self._write(known)
            if known.is_whole():
                self._handed.add(id(known.value))
                return known.value
            self._apart.append(self._objects.pop(place))
            data = known.stored
        if data is None:
            data = self._writes.get(place)
        if data is None:
            return ABSENT
        assert shape.codec is not None, "a leaf"
        return self._stand(place, shape, data, shape.codec.decode(data))

    def first(self, place: bytes, shape: Shape, initial: bytes) -> Any:
        """As :meth:`read`, where nothing was written: the object for the initial value."""
        value = self.read(place, shape)
        if value is not ABSENT:
            return value
        return self.read(place, shape, initial)

    def put(self, place: bytes, shape: Shape, value: Any) -> None:
        """Write a value that the function gives.

        Raises:
            StateError: When it does not fit.
        """
        assert shape.codec is not None, "a leaf"
        encoded = shape.codec.encode(value)
        self._writes.unflushed[place] = encoded
        known = self._objects.get(place)
        if known is not None:
            if known.value is value:
                known.wrote(encoded)
                return
            self.drop(place)
        if self._kept:
            self._put_again(place, value)
        if id(value) not in self._handed and can_change(value):
            self._add(_Object(place, shape, encoded, value, own=False))

    def copied(self, place: bytes, value: Any) -> None:
        """A collection was put in element by element: it must not be changed after that.

        The same is said of each collection in it; leaves in it were put in themselves.
        """
        if can_change(value):
            if self._kept:
                self._put_again(place, value)
            self._apart.append(_Apart(place, value, copy.copy(value)))

    def drop(self, place: bytes) -> None:
        """What stood for the place's value is an object like any other now."""
        known = self._objects.pop(place, None)
        if known is not None:
            self._handed.discard(id(known.value))

    def write(self) -> None:
        """Write what was changed so far.

        Raises:
            StateError: When something was changed to what does not fit.
        """
        for known in self._objects.values():
            self._write(known)

    def transformed(self) -> None:
        """The state was changed by a path: what stands for a value that is gone must not change."""
        for place, known in list(self._objects.items()):
            data = self._writes.get(place)
            if (self._writes.spec.initial_bytes if data is None else data) != known.stored:
                self.drop(place)
                self._apart.append(known)

    def end_call(self) -> None:
        """The function's call is done: write what it changed, and let go of it.

        Raises:
            StateError: When something was changed to what does not fit, or an object was changed
                that stands for no value any more.
        """
        if self._objects:
            found = list(self._objects.values())
            for known in found:
                self._write(known)
            self._let_go(found)
            self._objects.clear()
        if self._apart:
            for each in self._apart:
                if each.changed():
                    raise self._misused(each, "after the state went on without it", _CHANGED_APART)
            self._let_go(self._apart)
            self._apart = []
        if len(self._kept) > self._kept_max:
            self.check()

    def undo_call(self) -> None:
        """What the function's call wrote was taken back: nothing stands for a value any more."""
        undone, self._objects, self._apart = self._objects, {}, []
        self._handed.difference_update([id(known.value) for known in undone.values()])
        found = list(undone.values())
        for known, alone in zip(found, _alone(found), strict=True):
            if not alone:
                copied = copy.deepcopy(known.value)
                self._kept[id(known.value)] = _Apart(known.place, known.value, copied)

    def check(self) -> None:
        """Hold that what somebody holds of earlier calls is unchanged.

        Raises:
            StateError: When it is not.
        """
        kept, self._kept = self._kept, {}
        for each in kept.values():
            if each.changed():
                raise self._misused(each, "after the call that it belonged to", _CHANGED_LATER)
        self._let_go(list(kept.values()))
        self._kept_max = max(_SWEEP_MIN, 2 * len(self._kept))

    def _put_again(self, place: bytes, value: Any) -> None:
        """An object of an earlier call is put in: it may have been changed for its own place."""
        earlier = self._kept.get(id(value))
        if earlier is None:
            return
        if earlier.place == place:
            del self._kept[id(value)]
        elif earlier.changed():
            raise self._misused(earlier, "after the call that it belonged to", _CHANGED_LATER)

    def _stand(self, place: bytes, shape: Shape, data: bytes, value: Any) -> Any:
        if type(value) in _CONTAINERS:
            self._add(_Object(place, shape, data, value, own=True))
            self._handed.add(id(value))
        return value

    def _add(self, made: _Object) -> None:
        if len(self._objects) >= self._objects_max:
            self._sweep()
        self._objects[made.place] = made

    def _write(self, known: _Object) -> None:
        try:
            encoded = known.encoded()
        except StateError as error:
            error.context.setdefault("pstate", self._writes.spec.name)
            error.context.setdefault("key", _shown(known.place))
            raise
        if encoded is not None:
            self._writes.unflushed[known.place] = encoded
            known.wrote(encoded)

    def _sweep(self) -> None:
        """A call reads a great many values: write what it changed and holds no more."""
        self.write()
        found = list(self._objects.values())
        for known, alone in zip(found, _alone(found), strict=True):
            if alone:
                self.drop(known.place)
        self._objects_max = max(_SWEEP_MIN, 2 * len(self._objects))

    def _let_go(self, found: Sequence[_Object | _Apart]) -> None:
        """Keep those that somebody else holds."""
        for each, alone in zip(found, _alone(found), strict=True):
            self._handed.discard(id(each.value))
            if not alone:
                self._kept[id(each.value)] = each

    def _misused(self, found: _Object | _Apart, when: str, hint: str) -> StateError:
        name = self._writes.spec.name
        return StateError(
            f"{kind_of_value(found.value)} of PState {name!r} was changed {when}",
            hint=hint,
            pstate=name,
            key=_shown(found.place),
        )


def _alone(found: Sequence[_Object | _Apart]) -> list[bool]:
    """Whether nobody else holds the value of each, or something in it."""
    once = _held_once([each.value for each in found])
    return [
        held and (each.flat or _alone_within(each.value))
        for each, held in zip(found, once, strict=True)
    ]


def _alone_within(value: Any) -> bool:
    if type(value) not in _CONTAINERS:
        return False
    members = value.values() if type(value) is dict else value
    inner = [each for each in members if type(each) not in _MEMBERS]
    inner = [each for each in inner if can_change(each)]
    return not inner or (all(_held_once(inner)) and all(map(_alone_within, inner)))


def _held_once(values: list[Any]) -> list[bool]:
    """Whether each value is held by one holder beside this list."""
    return [count == _COUNT for count in map(getrefcount, values)]


def _count_held_once() -> int:
    holder: list[Any] = [[]]
    values = list(holder)
    return next(map(getrefcount, values))


_COUNT = _count_held_once()


def _shown(place: bytes) -> str:
    """The keys and field names that lead to a place."""
    shown, at = "", 0
    while place != EMPTY_KEY and at < len(place):
        element, at = decode_element(place, at)
        shown += f"[{element!r}]"
    return shown
