"""Distinct counts: HyperLogLog sketches of Apache DataSketches, in one canonical form.

The registers of a sketch depend on the values alone, but its bytes do not yet: while it is small
it lists its values in the order of a hash table, and when it is large it remembers an estimate
that holds for one order of arrival. So a sketch is made canonical before it is kept: the list
sorted, the remembered estimate dropped (a union with itself does that). Then equal values give
equal bytes, whatever the cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import datasketches
import numpy as np
import pyarrow as pa

from atoll.aggregates.kernels.segments import Positions
from atoll.aggregates.kernels.types import fitted
from atoll.arrow_types import OPAQUE
from atoll.errors import StateError
from atoll.schema import Node, Scalar

if TYPE_CHECKING:
    from atoll.aggregates.base import Packing


EMPTY = b""
"""The state of no values."""

_TYPE = datasketches.tgt_hll_type.HLL_8
_PREAMBLE_INTS, _MODE = 0, 7
"""Where a serialized sketch keeps the length of its preamble, in ints, and its mode."""
_MODE_MASK, _REGISTERS = 0b11, 2

_HEAD_BYTES = 8
_VERSION_AND_FAMILY = b"\x01\x07"
_REGISTERS_LOG_LEAST, _REGISTERS_LOG_MAX = 4, 21
_EIGHT_BITS = 2
"""The library's number for registers of a byte each, in the bits above the mode."""

_EXACT = Context(prec=38, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""All digits of a decimal, whatever the thread's own context says."""

_INTS = frozenset({"bool", "int", "date", "datetime"})


@dataclass(frozen=True, slots=True)
class Counter:
    """One distinct count at work on values of a known schema."""

    label: str
    registers_log: int
    kind: Node
    packing: Packing

    def count(self, column: pa.Array, starts: Positions | None) -> pa.Array:
        """The sketch of each group's values; each row a group if None."""
        values = self._hashable(column)
        bounds = range(len(values) + 1) if starts is None else [*starts.tolist(), len(values)]
        return pa.array([self._sketch(values[a:b]) for a, b in pairwise(bounds)], OPAQUE)

    def reduce(self, states: pa.Array, starts: Positions) -> pa.Array:
        """The union of each group's sketches."""
        parts = states.to_pylist()
        bounds = [*starts.tolist(), len(parts)]
        return pa.array([self._union(parts[a:b]) for a, b in pairwise(bounds)], OPAQUE)

    def merge(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """The union of both."""
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return pa.array([self._union(pair) for pair in pairs], OPAQUE)

    def _sketch(self, values: Iterable[Any]) -> bytes:
        distinct = dict.fromkeys(values)
        distinct.pop(None, None)
        if not distinct:
            return EMPTY
        sketch = datasketches.hll_sketch(self.registers_log, _TYPE)
        for value in distinct:
            sketch.update(value)
        return _canonical(sketch, self.registers_log)

    def _union(self, parts: Iterable[bytes | None]) -> bytes:
        distinct = dict.fromkeys(part for part in parts if part)
        if len(distinct) < 2:  # noqa: PLR2004 - nothing to unite
            return next(iter(distinct), EMPTY)
        union = datasketches.hll_union(self.registers_log)
        for part in distinct:
            union.update(_sketch_of(part))
        return _canonical(union.get_result(_TYPE), self.registers_log)

    def _hashable(self, column: pa.Array) -> list[Any]:
        """The values as the library takes them; equal ones equal. None where null."""
        kind = self.kind.kind if isinstance(self.kind, Scalar) else None
        if kind is None or kind == "tuple":
            opaque = self._packed(column)
            return [None if data is None else data.decode("latin-1") for data in opaque]
        array = fitted(column, self.kind, self.label, None)
        if kind in _INTS:
            ints: list[Any] = _as_ints(array, kind).to_pylist()
            return ints
        values = array.to_pylist()
        step = _STEPS[kind]
        return [None if value is None else step(value) for value in values]

    def _packed(self, column: pa.Array) -> list[bytes | None]:
        from atoll.aggregates.kernels.types import conform

        pack, node = self.packing.pack, self.kind
        values = column.to_pylist()
        return [None if value is None else pack(node, conform(value, node)) for value in values]


def estimate(state: bytes) -> int:
    """About how many distinct values a sketch saw.

    Raises:
        StateError: When the bytes are no sketch.
    """
    return round(_sketch_of(state).get_estimate()) if state else 0


def _as_ints(array: pa.Array, kind: str) -> pa.Array:
    steps = {"bool": pa.int8(), "date": pa.int32()}
    return array.cast(steps[kind]) if kind in steps else array.cast(pa.int64())


_STEPS: dict[str, Callable[[Any], Any]] = {
    # The library leaves out empty strings; a mark in front keeps them.
    "str": lambda text: "s" + text,
    "bytes": lambda data: "b" + data.decode("latin-1"),
    "decimal": lambda number: str(int(_EXACT.scaleb(number, 18))),
    "float": lambda number: "nan" if number != number else number + 0.0,  # noqa: PLR0124
}


def _sketch_of(state: bytes) -> Any:
    if not _is_whole(state):
        raise StateError(
            "these bytes are no sketch",
            hint="they were damaged, or written under another schema",
            value=state[:64].hex(),
        )
    try:
        return datasketches.hll_sketch.deserialize(state)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise StateError(
            f"these bytes are no sketch: {error}",
            hint="they were damaged, or written under another schema",
            value=state[:64].hex(),
        ) from error


def _is_whole(state: bytes) -> bool:
    """Whether the lengths that the bytes tell of are theirs.

    The library believes them, and reads past the end of bytes that lie, which kills the process.
    The layout is that of Apache DataSketches' compact HLL_8 images, serial version 1.
    """
    if len(state) < _HEAD_BYTES or state[1:3] != _VERSION_AND_FAMILY:
        return False
    preamble_ints, registers_log, list_log, mode = state[0], state[3], state[4], state[_MODE]
    if not _REGISTERS_LOG_LEAST <= registers_log <= _REGISTERS_LOG_MAX or mode >> 2 != _EIGHT_BITS:
        return False
    match mode & _MODE_MASK:
        case 0:
            wanted, coupons, coupons_max = (2, 3), state[6], 7
        case 1:
            coupons = int.from_bytes(state[_HEAD_BYTES : _HEAD_BYTES + 4], "little")
            wanted = (3, max(5, min(list_log, registers_log)))
            coupons_max = 3 << wanted[1] >> 2  # the table is at most three quarters full
        case 2:  # registers; none of them needs an exception with eight bits each
            length = 4 * 10 + (1 << registers_log)
            return preamble_ints == 10 and len(state) == length and not any(state[36:40])  # noqa: PLR2004
        case _:
            return False
    fits = len(state) == 4 * (wanted[0] + coupons) and coupons <= coupons_max
    return (preamble_ints, list_log) == wanted and fits


def _canonical(sketch: Any, registers_log: int) -> bytes:
    """The sketch's bytes, the same for the same values."""
    data: bytes = sketch.serialize_compact()
    if data[_MODE] & _MODE_MASK == _REGISTERS:
        union = datasketches.hll_union(registers_log)
        union.update(sketch)
        union.update(sketch)
        registers: bytes = union.get_result(_TYPE).serialize_compact()
        return registers
    head = 4 * data[_PREAMBLE_INTS]
    return data[:head] + np.sort(np.frombuffer(data, "<u4", offset=head)).tobytes()
