"""The handle of a PState that is one value as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atoll.codec.detached import detached
from atoll.codec.keys.elements import EMPTY_KEY
from atoll.pstate.handles.base import Handle
from atoll.pstate.handles.live import ABSENT
from atoll.pstate.navigate.changing import checked_result


class ValueHandle(Handle):
    """One stored value: a PState that is a scalar, list or struct as a whole, or per vnode."""

    __slots__ = ()

    def get(self, default: Any = None) -> Any:
        """The value; when it was never written the default, or the PState's initial value."""
        found = self._read(self._shape, self._place)
        if found is not ABSENT:
            return found
        initial = self._writes.spec.initial_bytes
        if default is not None or initial is None:
            return default
        if self._shape.fixed:
            return self._writes.spec.initial_value()
        return self._writes.live.read(self._place, self._shape, initial)

    def set(self, value: Any) -> None:
        """Set the value."""
        self._write(self._shape, self._place, value)

    def update(self, change: Callable[[Any], Any]) -> None:
        """Set the value to what the function makes of it.

        Raises:
            StateError: When it changes the value in place and returns None.
        """
        value = self.get()
        self.set(checked_result(detached(value), value, change(value)))

    @property
    def value(self) -> Any:
        """The value, to read, to change and to assign."""
        return self.get()

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)

    def clear(self) -> None:
        """Forget the value: as if it had never been written."""
        if self._writes.get(self._place) is not None:
            self._writes.unflushed[self._place] = None
        self._writes.live.drop(self._place)

    @property
    def _place(self) -> bytes:
        """The key of the value's entry."""
        return self._prefix or EMPTY_KEY

    def __repr__(self) -> str:
        """Name and type, without reading anything."""
        return f"<value of {self._writes.spec.name}>"
