"""Where a vnode keeps what it knows of ranks, beside its data.

An entry that is ranked has a second one, its *seat*: the group that it is in (the key elements
before its own), the terms of its order as bytes that sort as they do, and its own key element. So
the seats of a group lie in the order of ranks. Every sixty-fourth of them or so, by a digest of
its bytes, begins a *block*, whose count says how many seats there are up to the next block; every
sixty-fourth block begins one of a second level, and so on. Which seats do depends on them alone,
so the same entries always have the same blocks, whatever became of them on the way.

========================  ===============================================================
key                       value
========================  ===============================================================
``FE F0``, seat           how many bytes of the seat are the key element
``FE F1``, seat           of the first level: how many seats from this one to the next block
``FE F2`` to ``FE F5``    the same of the higher levels
``FE FF``                 the *mark*: by what entries are ranked
========================  ===============================================================

Without the mark, or with another one, nothing here counts: a store that was written before its
PState was ranked, or ranked by this, is gone through once with the next write, and answers by
sorting until then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from atoll.codec.keys.elements import DATA_END, decode_element
from atoll.codec.keys.orders import TERM_END, encode_order, encode_orders
from atoll.codec.values.leaf import LeafCodec
from atoll.ranked import Term, key_term, terms_of
from atoll.schema import Map, Node, Scalar, Set, Struct

_COMPLEMENT = bytes(255 - byte for byte in range(256))

LEVELS = 6
HEADS = tuple(DATA_END + bytes((0xF0 + level,)) for level in range(LEVELS))
MARK = DATA_END + b"\xff"
_BITS = 6
"""One seat in 64 begins a block, one block in 64 a higher one."""

PAGE = 96
"""Entries to read at once: somewhat more than a block has."""

Position = tuple[str, ...]
Seats = dict[bytes, "Ranked"]
"""Seats of entries, the group first; what else is known of each."""


class Ranked(NamedTuple):
    """Of a seat: how many of its bytes are the group, and how many are the key element."""

    group: int
    element: int


@dataclass(frozen=True)
class RankedMap:
    """One ranked map or set of a schema."""

    node: Map | Set
    terms: tuple[Term, ...]
    codec: LeafCodec | None

    def orders(self, elements: Sequence[bytes], values: Sequence[bytes]) -> list[bytes | None]:
        """The bytes of the terms of each entry; None where the first one is null."""
        if not self.terms:
            return [b""] * len(elements)
        shown = None
        if self.codec is not None and not all(term.of_key for term in self.terms):
            shown = self.codec.finish_columns(self.codec.decode_columns(values))
        parts = [self._part(term, elements, shown) for term in self.terms]
        made: list[bytes | None] = list(map(b"".join, zip(*parts, strict=True)))
        first = self.terms[0]
        if first.of_key or shown is None:
            return made
        column = self._column(first, shown)
        if not column.null_count:
            return made
        there = column.is_valid().to_pylist()
        return [each if held else None for each, held in zip(made, there, strict=True)]

    def _part(
        self, term: Term, elements: Sequence[bytes], shown: pa.Array | None
    ) -> Sequence[bytes]:
        if term.of_key:
            return [each.translate(_COMPLEMENT) for each in elements] if term.falls else elements
        assert shown is not None, "terms of values have values"
        kind = Scalar(term.kind.kind, optional=True, items=term.kind.items)
        return encode_orders([self._column(term, shown)], [kind], [term.falls])

    def _column(self, term: Term, shown: pa.Array) -> pa.Array:
        fields = isinstance(self.node, Map) and isinstance(self.node.value, Struct)
        return pc.struct_field(shown, term.name) if fields else shown

    def bound(self, values: Sequence[object], *, after: bool) -> bytes:
        """Where the seats end that are before an order, or where those begin that are after it."""
        terms = self.terms or (key_term(self.node),)
        kinds = [Scalar(each.kind.kind, optional=True, items=each.kind.items) for each in terms]
        start = encode_order(values, kinds, [each.falls for each in terms])
        if after:
            return start + b"\xff"
        return start + TERM_END if terms[len(values) - 1].falls else start


class Ranks:
    """All that is ranked in a PState.

    Args:
        node: Its schema.
        codecs: The codec of each leaf, by position.
        generation: How many migrations its values have been through.
    """

    def __init__(
        self, node: Node, codecs: Mapping[Position, LeafCodec], generation: int = 0
    ) -> None:
        self._node = node
        self.maps: dict[Position, RankedMap] = {}
        for position, ranked in ranked_nodes(node):
            codec = codecs[position] if isinstance(ranked, Map) else None
            self.maps[position] = RankedMap(ranked, terms_of(ranked), codec)
        root = isinstance(node, Map | Set) and bool(node.ranked)
        self._whole: tuple[Position, int] | None = ((), 0) if root else None
        said = [(*at, *each.node.ranked, str(each.node)) for at, each in self.maps.items()]
        self.mark = repr((generation, said)).encode()

    def seats(self, keys: Sequence[bytes], *versions: Sequence[bytes | None]) -> tuple[Seats, ...]:
        """The seats of the entries that are there and have a rank, for each version of values.

        All versions are computed at once, since most writes are small.
        """
        rows: dict[Position, list[tuple[Seats, bytes, int, bytes]]] = {}
        made: tuple[Seats, ...] = tuple({} for _ in versions)
        for seats, values in zip(made, versions, strict=True):
            for key, value in zip(keys, values, strict=True):
                if value is None or key >= DATA_END:
                    continue
                found = self._whole or self._group_of(key)
                if found is not None:
                    rows.setdefault(found[0], []).append((seats, key, found[1], value))
        for position, entries in rows.items():
            elements = [key[group:] for _, key, group, _ in entries]
            orders = self.maps[position].orders(elements, [value for *_, value in entries])
            for (seats, key, group, _), element, order in zip(
                entries, elements, orders, strict=True
            ):
                if order is not None:
                    seats[key[:group] + order + element] = Ranked(group, len(element))
        return made

    def _group_of(self, key: bytes) -> tuple[Position, int] | None:
        """The ranked map that an entry is in, and where its group ends."""
        node, at = self._node, 0
        position: Position = ()
        while True:
            if isinstance(node, Map | Set) and node.ranked:
                return position, at
            if isinstance(node, Set) or node.leaf:
                return None
            element, at = decode_element(key, at)
            if isinstance(node, Struct):
                position = (*position, element)
                node = dict(node.fields)[element]
            else:
                assert isinstance(node, Map)
                node = node.value


def ranked_nodes(node: Node, position: Position = ()) -> Iterator[tuple[Position, Map | Set]]:
    """The ranked maps and sets of a schema, by the fields on the way; they hold no others."""
    match node:
        case Map(_, _, ranked) | Set(_, ranked) if ranked:
            yield position, node
        case Map(_, value):
            yield from ranked_nodes(value, position)
        case Struct(fields):
            for name, member in fields:
                yield from ranked_nodes(member, (*position, name))


def level_of(seat: bytes) -> int:
    """The highest level at which a seat begins a block; 0 when at none."""
    digest = int.from_bytes(hashlib.blake2b(seat, digest_size=4).digest())
    zeros = (digest & -digest).bit_length() - 1 if digest else 32
    return min(zeros // _BITS, LEVELS - 1)


def count_bytes(count: int) -> bytes:
    """A count as it is stored."""
    return count.to_bytes(8, "big")
