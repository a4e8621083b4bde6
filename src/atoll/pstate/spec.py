"""What a PState is: its schema, its vnodes, and how its entries become bytes.

An entry's key is all path elements to it, one after the other: map keys, a set's element, and
for a struct whose fields are stored apart the field's name. Its value is one leaf. A schema may
have several leaves (a struct of several); a leaf is known by its *position*: the names of the
struct fields on the way to it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.errors import DeclarationError, StateError
from atoll.placement.vnodes import check_vnode_count, vnode_by, vnode_of
from atoll.pstate.migration import Migration
from atoll.pstate.shapes import Shape
from atoll.schema import Map, Node, Set, Struct, from_json, to_json

if TYPE_CHECKING:
    from atoll.pstate.ranked.layout import Ranks

Position = tuple[str, ...]
"""The names of the struct fields on the way to a leaf."""

PartitionBy = Callable[[Any], int] | Literal["function"] | None
"""What says a key's vnode: the user's function, one that is not known here, or the CRC-32."""


class DeclaredPState(Protocol):
    """What a module's declaration says of a PState."""

    @property
    def module(self) -> str:
        """The module's name."""

    @property
    def topology(self) -> str:
        """The one topology that writes it."""

    @property
    def name(self) -> str:
        """Unique among the module's PStates."""

    @property
    def node(self) -> Node:
        """Its schema."""

    @property
    def vnode_count(self) -> int:
        """Into how many vnodes it is divided."""

    @property
    def is_global(self) -> bool:
        """Whether everything lies in one vnode."""

    @property
    def initial(self) -> Any:
        """The value of a leaf at the top that was never written."""


@dataclass(frozen=True)
class PStateSpec:
    """A PState as tasks, readers and the deployment object know it.

    Attributes:
        module: The module's name.
        topology: The one topology that writes it.
        name: The PState's name.
        node: Its schema.
        vnode_count: Into how many vnodes it is divided; 1 when it is not.
        is_global: Whether everything lies in one vnode.
        codecs: The codec of each leaf, by position. A set's elements have none.
        initial: The value of a leaf at the top that was never written.
        private: Whether only its topology reads it.
        partition_by: What says the vnode of a key.
        track_size: Whether the sizes of its maps and sets are kept beside them.
        migrations: What its entries have been through or still have to, in order.
        migrated: The ids of all migrations that were ever declared for it.
    """

    module: str
    topology: str
    name: str
    node: Node
    vnode_count: int
    is_global: bool
    codecs: Mapping[Position, LeafCodec] = field(repr=False)
    initial: Any = None
    private: bool = False
    partition_by: PartitionBy = None
    track_size: bool = False
    migrations: tuple[Migration, ...] = ()
    migrated: tuple[str, ...] = ()

    @property
    def generation(self) -> int:
        """That of a vnode whose entries have been through all migrations."""
        return self.migrations[-1].generation if self.migrations else 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was declared; the rest is computed again."""
        return (
            PStateSpec,
            (
                self.module,
                self.topology,
                self.name,
                self.node,
                self.vnode_count,
                self.is_global,
                dict(self.codecs),
                self.initial,
                self.private,
                self.partition_by,
                self.track_size,
                self.migrations,
                self.migrated,
            ),
        )

    @cached_property
    def initial_bytes(self) -> bytes | None:
        """The stored form of the initial value; None when there is none."""
        return None if self.initial is None else self.codecs[()].encode(self.initial)

    def initial_value(self) -> Any:
        """The value of a leaf at the top that was never written, for its reader alone."""
        data = self.initial_bytes
        return None if data is None else self.codecs[()].decode(data)

    @cached_property
    def ranks(self) -> Ranks | None:
        """What of it is ranked; None when nothing is."""
        from atoll.pstate.ranked.layout import Ranks, ranked_nodes

        if not any(True for _ in ranked_nodes(self.node)):
            return None
        return Ranks(self.node, self.codecs, self.generation)

    @cached_property
    def shape(self) -> Shape:
        """What the schema says of each place."""
        return Shape(self.node, (), self.codecs)

    def codec(self, position: Position = ()) -> LeafCodec:
        """The codec of the leaf at a position."""
        return self.codecs[position]

    def sole_codec(self) -> LeafCodec | None:
        """The codec of the only leaf; None when the entries are a set's elements.

        Raises:
            DeclarationError: When the schema has several leaves.
        """
        if len(self.codecs) > 1:
            raise DeclarationError(
                f"PState {self.name!r} has {len(self.codecs)} kinds of values",
                hint="put each into a PState of its own",
            )
        return next(iter(self.codecs.values()), None)

    def vnode_of(self, element: bytes) -> int | None:
        """The vnode of every entry whose key begins with this encoded element.

        None where only the module's code can say it: the deployment object holds no functions.

        Raises:
            UserCodeError: When the PState's own function raises.
        """
        if self.vnode_count == 1:
            return 0
        if self.partition_by is None:
            return vnode_of(element, self.vnode_count)
        if self.partition_by == "function":
            return None
        return vnode_by(self.partition_by, element, self.vnode_count)

    def position_of(self, elements: Sequence[object]) -> Position | None:
        """The position of the leaf at a decoded key; None for a set's element."""
        node: Node | None = self.node
        names: list[str] = []
        for element in elements:
            assert isinstance(node, Map | Struct | Set)
            if isinstance(node, Struct):
                names.append(str(element))
            node = child_of(node, element)
        return None if node is None else tuple(names)

    def to_json(self) -> dict[str, Any]:
        """The spec as plain data, for the deployment object; :meth:`from_json` reads it."""
        initial = self.initial_bytes
        return {
            **({"private": True} if self.private else {}),
            **({} if self.partition_by is None else {"partition_by": "function"}),
            **({"track_size": True} if self.track_size else {}),
            **({"migrated": list(self.migrated)} if self.migrated else {}),
            **({"migrations": [m.to_json() for m in self.migrations]} if self.migrations else {}),
            "module": self.module,
            "topology": self.topology,
            "name": self.name,
            "schema": to_json(self.node),
            "vnode_count": self.vnode_count,
            "global": self.is_global,
            "codecs": [[list(at), codec.to_json()] for at, codec in self.codecs.items()],
            "initial": None if initial is None else base64.b64encode(initial).decode("ascii"),
        }

    @classmethod
    def from_json(cls, data: Any) -> PStateSpec:
        """The spec that :meth:`to_json` wrote.

        Raises:
            DeclarationError: When the data is no spec.
        """
        try:
            codecs = {tuple(at): LeafCodec.from_json(codec) for at, codec in data["codecs"]}
            stored = data["initial"]
            initial = None if stored is None else codecs[()].decode(base64.b64decode(stored))
            return cls(
                data["module"],
                data["topology"],
                data["name"],
                from_json(data["schema"]),
                check_vnode_count(data["vnode_count"]),
                bool(data["global"]),
                codecs,
                initial,
                bool(data.get("private")),
                None if data.get("partition_by") is None else "function",
                bool(data.get("track_size")),
                tuple(Migration.from_json(each) for each in data.get("migrations", ())),
                tuple(data.get("migrated", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DeclarationError(
                "the data is no PState", hint="it was written by another version of Atoll"
            ) from error


def pstate_spec(
    declared: DeclaredPState, codecs: Mapping[Position, LeafCodec] | None = None
) -> PStateSpec:
    """The spec of a declared PState.

    Args:
        declared: The declaration.
        codecs: The codecs of leaves that an aggregate gave hidden state; others are plain.

    Raises:
        DeclarationError: When the initial value does not fit.
    """
    given = dict(codecs or {})
    known = {
        position: given.pop(position) if position in given else leaf_codec(node)
        for position, node in leaves(declared.node)
    }
    if given:
        raise DeclarationError(f"PState {declared.name!r} has no leaf at {next(iter(given))!r}")
    spec = PStateSpec(
        declared.module,
        declared.topology,
        declared.name,
        declared.node,
        check_vnode_count(declared.vnode_count),
        declared.is_global,
        known,
        declared.initial,
        bool(getattr(declared, "private", False)),
        getattr(declared, "partition_by", None),
        bool(getattr(declared, "track_size", False)),
    )
    if declared.initial is not None:
        _check_initial(spec)
    return spec


def _check_initial(spec: PStateSpec) -> None:
    if not spec.node.leaf:
        raise DeclarationError(
            f"PState {spec.name!r} cannot have an initial value",
            hint="only a scalar, list or struct has one; a map or set begins empty",
        )
    try:
        assert spec.initial_bytes is not None
    except StateError as error:
        raise DeclarationError(
            f"the initial value of PState {spec.name!r} does not fit: {error.message}",
            hint=error.hint,
        ) from error


def leaves(node: Node, position: Position = ()) -> Iterator[tuple[Position, Node]]:
    """Every leaf of a schema with its position. A set's elements are no leaves."""
    if node.leaf:
        yield position, node
    elif isinstance(node, Map):
        yield from leaves(node.value, position)
    elif isinstance(node, Struct):
        for name, member in node.fields:
            yield from leaves(member, (*position, name))


def child_of(node: Map | Struct | Set, element: Any) -> Node | None:
    """The node below one element of an element-wise node; None below a set's element."""
    if isinstance(node, Map):
        child: Node = node.value
        return child
    return node.get(element) if isinstance(node, Struct) else None
