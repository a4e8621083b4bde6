"""The handle of a struct whose fields are stored apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atoll.errors import StateError
from atoll.pstate.handles.live import ABSENT
from atoll.pstate.handles.mappings import MappingHandle
from atoll.pstate.shapes import Shape


class StructHandle(MappingHandle):
    """A struct whose fields are stored apart: ``user["name"] = "Ann"; user["tags"].add("x")``.

    Works as a dict that always has all its fields; one that was never set is None.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        """The field's value (None when it was never set), or its handle if element-wise."""
        shape, place = self._field(name)
        if not shape.leaf:
            return self._below(shape, place)
        found = self._read(shape, place)
        return None if found is ABSENT else found

    def __setitem__(self, name: str, value: Any) -> None:
        """Set the field; an element-wise one is replaced as a whole."""
        shape, place = self._field(name)
        self._write(shape, place, value)

    def __delitem__(self, name: str) -> None:
        """Make the field as if it had never been set."""
        shape, place = self._field(name)
        self._remove(shape, place)

    def pop(self, name: str, default: Any = None) -> Any:
        """Take the field's value out."""
        shape, place = self._field(name)
        below = self._below(shape, place).copy() if not shape.leaf else self[name]
        self._remove(shape, place)
        return default if below is None else below

    def __contains__(self, name: object) -> bool:
        """Whether the struct has such a field."""
        return name in self._shape.fields

    def __iter__(self) -> Iterator[str]:
        """The names of the fields."""
        return iter(self._shape.fields)

    def __len__(self) -> int:
        """How many fields there are."""
        return len(self._shape.fields)

    def __repr__(self) -> str:
        """Name and type, without reading anything."""
        return f"<struct of {self._writes.spec.name}>"

    def _field(self, name: str) -> tuple[Shape, bytes]:
        try:
            shape, encoded = self._shape.fields[name]
        except (KeyError, TypeError):
            raise StateError(
                f"the struct has no field {name!r}",
                hint=f"its fields are {', '.join(self._node.names())}",
                pstate=self._writes.spec.name,
            ) from None
        return shape, self._prefix + encoded
