"""What the handles of maps and of structs share: both are dicts to a function."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from atoll.pstate.handles.base import Handle


class MappingHandle(Handle, MutableMapping[Any, Any]):
    """A stored mapping."""

    __slots__ = ()

    def clear(self) -> None:
        """Remove everything here."""
        Handle.clear(self)

    def __bool__(self) -> bool:
        """Whether there is anything here."""
        return self._any()

    def __eq__(self, other: object) -> bool:
        """Equal to a mapping of the same entries."""
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # mutable

    def _fill(self, value: Any) -> None:
        if not isinstance(value, Mapping):
            self._cannot_replace(value)
        content = dict(value.items())
        self.clear()
        for key, item in content.items():
            self[key] = item
