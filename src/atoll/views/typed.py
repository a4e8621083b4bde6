"""A PState read by what it was declared as: its values come out as the declared types say."""

from __future__ import annotations

import datetime as dt
import typing
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar, overload

from atoll.errors import UsageError
from atoll.objects import builder
from atoll.schema import List, Map, Node, Scalar, Set, Struct
from atoll.topology.declared import PStateDeclaration, V

if TYPE_CHECKING:
    from atoll.depot.receipt import Awaited, Receipt
    from atoll.path import Path
    from atoll.pstate.spec import PStateSpec
    from atoll.views.export.export import Export

_D = TypeVar("_D")
_E = TypeVar("_E")
_K = TypeVar("_K")
_K2 = TypeVar("_K2")
_W = TypeVar("_W")

_PLAIN = (bool, int, float, str, bytes, dt.date, dt.datetime, Decimal)
"""What comes out as it is declared."""
_BY_NODES = (Map, Set, List, Struct, Scalar)


class Shape(NamedTuple):
    """What is known of a PState wherever it is read.

    Attributes:
        name: Its name.
        node: Its schema.
        topology: The topology that writes it.
        vnode_count: Its vnodes.
    """

    name: str
    node: Node
    topology: str
    vnode_count: int


class Readable(Protocol):
    """A PState to be read, here or over a connection."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def spec(self) -> PStateSpec | Shape:
        """What it is."""

    def get(self, *keys: object, default: Any = None) -> Any:
        """The value at the keys."""

    def select(self, path: Path) -> list[Any]:
        """All values that a path leads to."""

    def select_one(self, path: Path) -> Any:
        """The one value that a path leads to."""

    def iterate(self, path: Path) -> Iterator[Any]:
        """The values that a path leads to, one after the other."""

    def after(self, *receipts: Receipt | Awaited | str, timeout_seconds: float = 60.0) -> object:
        """Wait until it shows what came of what was appended."""

    def as_of(self, microbatch: int) -> Readable:
        """It after an earlier microbatch."""

    def export(self, *, field: str | None = None) -> Export:
        """The whole of it, for other tools."""

    def export_changes(
        self, after: int | None = None, up_to: int | None = None, *, field: str | None = None
    ) -> Export:
        """What commits wrote to it, for other tools."""

    def _repr_html_(self) -> str:
        """What it is, for a notebook."""


class TypedPState(Generic[V]):
    """One PState, as :class:`~atoll.views.readable.ReadablePState`, for whoever declared it.

    Values are objects of the declared class, sets, UUIDs and whatever the declaration says; by the
    name of the PState, or through :attr:`plain`, they come as dicts, lists and text.

    Attributes:
        plain: The PState without types.
        declared: What it was declared as.
    """

    def __init__(self, plain: Readable, declared: PStateDeclaration[V]) -> None:
        """Made by ``app.pstate``."""
        self.plain = plain
        self.declared = declared
        self.name = plain.name

    def __repr__(self) -> str:
        """What it is, no values."""
        return repr(self.plain)

    @property
    def spec(self) -> PStateSpec | Shape:
        """What the PState is."""
        return self.plain.spec

    @overload
    def get(
        self: TypedPState[dict[_K, dict[_K2, _W]]], key: _K, key2: _K2, /, *, default: _D
    ) -> _W | _D: ...
    @overload
    def get(self: TypedPState[dict[_K, dict[_K2, _W]]], key: _K, key2: _K2, /) -> _W | None: ...
    @overload
    def get(self: TypedPState[dict[_K, _W]], key: _K, /, *, default: _D) -> _W | _D: ...
    @overload
    def get(self: TypedPState[dict[_K, _W]], key: _K, /) -> _W | None: ...
    @overload
    def get(self: TypedPState[dict[_K, _W]]) -> dict[_K, _W]: ...
    @overload
    def get(self: TypedPState[set[_E]]) -> set[_E]: ...
    @overload
    def get(self: TypedPState[V]) -> V | None: ...
    @overload
    def get(self, *keys: Any, default: Any = None) -> Any: ...
    def get(self, *keys: Any, default: Any = None) -> Any:
        """The value at the keys, one per map on the way; no keys: the whole of it.

        Raises:
            StateError: When a key is of the wrong type.
            PathError: When there are more keys than maps.
        """
        found = self.plain.get(*keys, default=default)
        if found is default or found is None:
            return found
        make = _maker(_below(self.declared.declared_as, len(keys)))
        return found if make is None else make(found)

    def select(self, path: Path) -> list[Any]:
        """All values that the path leads to, plain: a path may lead anywhere.

        Raises:
            PathError: When the path does not fit the schema.
        """
        return self.plain.select(path)

    def select_one(self, path: Path) -> Any:
        """The one value that the path leads to, plain.

        Raises:
            PathError: When it leads to none or to several, or does not fit the schema.
        """
        return self.plain.select_one(path)

    def iterate(self, path: Path) -> Iterator[Any]:
        """The values that the path leads to, plain, one after the other, as of one commit."""
        return self.plain.iterate(path)

    def after(self, *receipts: Receipt | Awaited | str, timeout_seconds: float = 60.0) -> Self:
        """The PState itself, once it shows what came of what was appended.

        Raises:
            ReceiptError: When the PState never shows it.
            WaitTimeoutError: When it takes longer.
        """
        self.plain.after(*receipts, timeout_seconds=timeout_seconds)
        return self

    def as_of(self, microbatch: int) -> TypedPState[V]:
        """The PState as it was after an earlier microbatch.

        Raises:
            UsageError: When that cannot be read.
        """
        return TypedPState(self.plain.as_of(microbatch), self.declared)

    def export(self, *, field: str | None = None) -> Export:
        """The whole PState as of one commit, for other tools, as the plain one exports it."""
        return self.plain.export(field=field)

    def export_changes(
        self, after: int | None = None, up_to: int | None = None, *, field: str | None = None
    ) -> Export:
        """What commits wrote to the PState, for other tools, as the plain one exports it."""
        return self.plain.export_changes(after, up_to, field=field)

    def _repr_html_(self) -> str:
        """As the plain one, for a notebook."""
        return self.plain._repr_html_()


def typed(plain: Readable, declared: PStateDeclaration[V], module: str) -> TypedPState[V]:
    """The PState as it was declared.

    Raises:
        UsageError: When the declaration is another module's, or of another version.
    """
    if declared.module != module:
        raise UsageError(
            f"PState {declared.name!r} was declared in module {declared.module!r}, not {module!r}",
            hint="ask the app of that module",
        )
    if declared.node != plain.spec.node:
        raise UsageError(
            f"PState {declared.name!r} is deployed as {plain.spec.node}, not {declared.node}",
            hint="deploy the version that declares it so, or ask for the PState by its name",
        )
    return TypedPState(plain, declared)


def _below(kind: Any, keys: int) -> Any:
    """The type of the value behind so many keys."""
    for _ in range(keys):
        members = typing.get_args(kind)
        if len(members) != 2:  # noqa: PLR2004 - key and value
            return Any
        kind = members[1]
    return kind


def _maker(kind: Any) -> Callable[[Any], Any] | None:
    """What makes declared values of plain ones; None where they are the same."""
    if kind is Any or kind in _PLAIN or isinstance(kind, (str, *_BY_NODES)):
        return None
    members: Sequence[Any] = typing.get_args(kind)
    if typing.get_origin(kind) in (dict, list) and all(_maker(each) is None for each in members):
        return None
    return builder(kind)
