"""What a schema says of each place below a PState: worked out once, asked at every access."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from atoll.codec.keys.elements import encode_element
from atoll.schema import List, Map, Node, Scalar, Struct

if TYPE_CHECKING:
    from atoll.codec.values.leaf import LeafCodec


_FIELD_NAME = Scalar("str")


class Shape:
    """One kind of place: the node there, its leaf's codec, and the shapes below it.

    Attributes:
        node: The schema there.
        position: The names of the struct fields on the way.
        leaf: Whether it is one value.
        codec: The leaf's.
        fixed: Whether the leaf's values cannot be changed in place.
        flat: Whether nothing in the leaf's value can be changed in place but the value itself.
        value: The shape of a map's values.
        fields: The shape of each field of a struct that is stored by field, with what its name
            adds to a key.
    """

    __slots__ = ("codec", "fields", "fixed", "flat", "leaf", "node", "position", "value")

    def __init__(
        self, node: Node, position: tuple[str, ...], codecs: Mapping[tuple[str, ...], LeafCodec]
    ) -> None:
        self.node = node
        self.position = position
        self.leaf = node.leaf
        self.codec: LeafCodec | None = codecs[position] if node.leaf else None
        self.fixed = _is_fixed(node)
        self.flat = _is_flat(node)
        self.value: Shape | None = None
        self.fields: dict[str, tuple[Shape, bytes]] = {}
        if isinstance(node, Map):
            self.value = Shape(node.value, position, codecs)
        elif isinstance(node, Struct) and not node.leaf:
            for name, member in node.fields:
                below = Shape(member, (*position, name), codecs)
                self.fields[name] = below, encode_element(name, _FIELD_NAME)


def _is_fixed(node: Node) -> bool:
    """Bytes are not: a bytearray fits, which can be changed after it was put in."""
    return isinstance(node, Scalar) and (
        all(map(_is_fixed, node.items)) if node.kind == "tuple" else node.kind != "bytes"
    )


def _is_flat(node: Node) -> bool:
    match node:
        case List(item):
            return _is_fixed(item)
        case Struct(fields):
            return all(_is_fixed(member) for _, member in fields)
    return False
