"""What a lookup reads at the place that a row's keys name: a value, an element, or all below.

Keys come sorted, of one vnode; the column has a value for each of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from atoll.arrow_types import value_type
from atoll.codec.keys.elements import EMPTY_KEY, encode_element, successor
from atoll.codec.values.opaque import arrow_ready
from atoll.pstate.navigate.places import Builder, Place

if TYPE_CHECKING:
    from atoll.codec.values.leaf import LeafCodec
    from atoll.pstate.spec import Position, PStateSpec
    from atoll.schema import Node, Scalar


_TIMES = {"int": 0, "date": dt.date(1970, 1, 1), "datetime": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}
"""A key of each kind of time; all that rows can have are as wide."""


class Entries(Protocol):
    """The entries of one vnode."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key."""

    def scan(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range, in key order or backwards."""


class Reading(Protocol):
    """How values are read, and which column they make."""

    @property
    def column_type(self) -> pa.DataType:
        """The column's type."""

    def read(self, entries: Entries, keys: Sequence[bytes]) -> list[Any]:
        """What is found at each key."""

    def column(self, found: list[Any]) -> pa.Array:
        """The column of what was found."""


@dataclass(frozen=True)
class LeafReading:
    """One value; null where there is none, or the PState's initial one."""

    codec: LeafCodec
    initial: bytes | None

    @property
    def column_type(self) -> pa.DataType:
        """As readers see the value."""
        return self.codec.value_arrow_type

    def read(self, entries: Entries, keys: Sequence[bytes]) -> list[Any]:
        """With one read."""
        found = entries.get_many(keys)
        if self.initial is None:
            return found
        return [self.initial if value is None else value for value in found]

    def column(self, found: list[Any]) -> pa.Array:
        """Hidden state finished."""
        return self.codec.finish_columns(self.codec.decode_columns(found))


@dataclass(frozen=True)
class AsOfReading:
    """The value of the last time that is not after that of the row; null where there is none."""

    codec: LeafCodec
    time: Scalar

    @property
    def column_type(self) -> pa.DataType:
        """As readers see the value."""
        return self.codec.value_arrow_type

    def read(self, entries: Entries, keys: Sequence[bytes]) -> list[Any]:
        """One seek for each key, however many rows name it."""
        width = len(encode_element(_TIMES[self.time.kind], self.time))
        found: list[Any] = []
        for key, same in groupby(keys):
            before = entries.scan(key[:-width] or None, successor(key), reverse=True, limit=1)
            value = next((value for _, value in before), None)
            found += [value] * len(list(same))
        return found

    def column(self, found: list[Any]) -> pa.Array:
        """Hidden state finished."""
        return self.codec.finish_columns(self.codec.decode_columns(found))


@dataclass(frozen=True)
class ElementReading:
    """Whether an element is in a set."""

    @property
    def column_type(self) -> pa.DataType:
        """True or false."""
        return pa.bool_()

    def read(self, entries: Entries, keys: Sequence[bytes]) -> list[Any]:
        """With one read."""
        return [value is not None for value in entries.get_many(keys)]

    def column(self, found: list[Any]) -> pa.Array:
        """As they are."""
        return pa.array(found, pa.bool_())


@dataclass(frozen=True)
class WholeReading:
    """All that lies below: a set as an array in its order, a map as a map, nested as declared."""

    spec: PStateSpec
    node: Node
    position: Position

    @property
    def column_type(self) -> pa.DataType:
        """That of whole values."""
        return value_type(self.node)

    def read(self, entries: Entries, keys: Sequence[bytes]) -> list[Any]:
        """One scan for each key, however many rows name it."""
        found: list[Any] = []
        for key, same in groupby(keys):
            value = arrow_ready(self.node, self._below(entries, b"" if key == EMPTY_KEY else key))
            found += [value] * len(list(same))
        return found

    def column(self, found: list[Any]) -> pa.Array:
        """As they are."""
        return pa.array(found, self.column_type)

    def _below(self, entries: Entries, prefix: bytes) -> Any:
        builder = Builder(self.spec, Place(self.node, self.position, prefix, None))
        bounds = (prefix, successor(prefix)) if prefix else (None, None)
        for key, value in entries.scan(*bounds):
            builder.add(key, value)
        return builder.finish()
