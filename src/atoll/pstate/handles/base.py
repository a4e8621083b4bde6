"""What all handles have: where they stand, and paths from there on."""

from __future__ import annotations

from typing import Any, NoReturn

from atoll.codec.detached import detached
from atoll.codec.keys.elements import encode_element, successor
from atoll.errors import StateError, kind_of_value
from atoll.objects import as_row
from atoll.path import Path
from atoll.pstate.handles.driven import Driven
from atoll.pstate.handles.live import ABSENT
from atoll.pstate.handles.writes import Writes
from atoll.pstate.navigate.fit_path import fit_path, fit_transform
from atoll.pstate.navigate.writing import StateChange, check_vnode
from atoll.pstate.shapes import Shape
from atoll.schema import Scalar


class Handle(Driven):
    """A place in a PState, within one vnode."""

    __slots__ = ("_node", "_prefix", "_shape")

    def __init__(self, writes: Writes, shape: Shape, prefix: bytes) -> None:
        """Made by :func:`~atoll.pstate.handles.handle_for` and by the handles above."""
        super().__init__(writes)
        self._shape: Any = shape
        self._node: Any = shape.node
        self._prefix = prefix

    # -- for the step that calls the function -----------------------------------------------------

    def check(self) -> None:
        """Hold that no value of an earlier call was changed.

        Raises:
            StateError: When one was.
        """
        self._writes.live.check()

    def stands_at(self, writes: Writes, prefix: bytes) -> bool:
        """Whether this is the place."""
        return self._writes is writes and self._prefix == prefix

    # -- for the function -------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove everything here."""
        self._writes.clear(self._prefix)

    def copy(self) -> Any:
        """Everything here as a value of the function's own: dicts, sets and lists."""
        self._writes.live.write()
        return _own(self._change().read())

    def select(self, path: Path) -> list[Any]:
        """Every value that a path leads to from here, as the microbatch has written it so far.

        They are copies: changing them changes no state.

        Raises:
            PathError: When the path does not fit the schema, or writes.
        """
        fitted = fit_path(path, self._node)
        self._writes.live.write()
        return self._change().select(fitted)

    def transform(self, path: Path) -> None:
        """Change what a path leads to from here: ``term``, ``set`` or ``delete`` is its last step.

        What the path does not lead to is neither read nor written.

        Raises:
            PathError: When the path does not fit the schema, or does not write.
            StateError: When a value that it makes does not fit, or a key is another vnode's.
        """
        fitted = fit_transform(path, self._node)
        self._writes.live.write()
        self._change().transform(fitted)
        self._writes.live.transformed()

    def __copy__(self) -> Any:
        """As :meth:`copy`."""
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """As :meth:`copy`."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what is here."""
        return _own, (self.copy(),)

    # -- for the kinds of handles -----------------------------------------------------------------

    def _change(self) -> StateChange:
        shape = self._shape
        return StateChange(self._writes, shape.node, shape.position, self._prefix)

    def _bounds(self) -> tuple[bytes | None, bytes | None]:
        return (self._prefix, successor(self._prefix)) if self._prefix else (None, None)

    def _element(self, value: Any, kind: Scalar) -> bytes:
        """The encoded key through this element; StateError when it is another vnode's."""
        encoded = encode_element(value, kind)
        if not self._prefix:
            check_vnode(self._writes, value, encoded)
        return self._prefix + encoded

    def _read(self, shape: Shape, place: bytes) -> Any:
        """The value of a leaf below, or ABSENT."""
        if not shape.fixed:
            return self._writes.live.read(place, shape)
        data = self._writes.get(place)
        return ABSENT if data is None else shape.codec.decode(data)  # type: ignore[union-attr]

    def _write(self, shape: Shape, place: bytes, value: Any) -> None:
        """Set what is below: a leaf, or an element-wise value as a whole."""
        if not isinstance(shape.node, Scalar):  # what is read back is what later rows read
            value = as_row(value)
        if shape.fixed:
            self._writes.unflushed[place] = shape.codec.encode(value)  # type: ignore[union-attr]
        elif shape.leaf:
            self._writes.live.put(place, shape, value)
        else:
            KINDS[type(shape.node)](self._writes, shape, place)._replace(value)

    def _remove(self, shape: Shape, place: bytes) -> None:
        """Remove what is below."""
        if shape.leaf:
            self._writes.unflushed[place] = None
            self._writes.live.drop(place)
        else:
            self._writes.clear(place)

    def _below(self, shape: Shape, place: bytes) -> Any:
        """The handle of what is stored by element below."""
        return KINDS[type(shape.node)](self._writes, shape, place)

    def _any(self) -> bool:
        return any(True for _ in self._writes.scan(*self._bounds()))

    def _is_here(self, value: object) -> bool:
        """Whether a value is a handle of this very place."""
        return isinstance(value, Handle) and value.stands_at(self._writes, self._prefix)

    def _replace(self, value: Any) -> None:
        """Put a whole value in place of what is here."""
        if self._is_here(value):
            return
        self._fill(value.copy() if isinstance(value, Handle) else value)
        if not isinstance(value, Handle):
            self._writes.live.copied(self._prefix, value)

    def _fill(self, value: Any) -> None:
        """Put what a value holds in place of what is here."""
        raise NotImplementedError

    def _cannot_replace(self, value: object) -> NoReturn:
        raise StateError(
            f"{kind_of_value(value)} cannot replace what is stored by element",
            hint="assign a dict to a map or struct, a set or list to a set",
        )


KINDS: dict[type, type[Handle]] = {}
"""The handle of each kind of node that is stored by element."""


def _own(value: Any) -> Any:
    """What was read of a place, its sets as plain ones."""
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    return set(value) if isinstance(value, frozenset) else detached(value)
