"""Percentiles: histograms whose buckets grow with the values, after UDDSketch.

A bucket holds the values of one sign whose logarithms fall into one interval, so a value is known
up to a share of itself. The logarithm is the binary one with the fraction taken as linear between
powers of two: exact arithmetic, the same on every machine. A state counts values by bucket. When
there are too many buckets, neighbours are united two by two: one *level* up, and the relative
error about doubles. The level that a state ends on depends only on which buckets were ever
filled, so states depend on the values alone, not on how they were cut or in which order they came.

A bucket's code is ``8 * interval + class``; the classes are in the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.segments import Positions, present_rows
from atoll.arrow_types import OPAQUE
from atoll.errors import StateError

Ints = NDArray[np.int64]

EMPTY = b""
"""The state of no values."""

BUCKETS_MAX = 2048
"""Beyond that many buckets a state goes one level up."""

_CLASSES = 8
_LOWEST, _NEGATIVE, _ZERO, _POSITIVE, _HIGHEST, _NAN = range(6)
_HEADER = 2
_NARROW, _WIDE = np.dtype("<u4"), np.dtype("<i8")
_CODE = np.dtype("<i4")


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Buckets of many groups, one row each, by group and then by code; and each group's level."""

    groups: Ints
    codes: Ints
    counts: Ints
    levels: Ints


@dataclass(frozen=True, slots=True)
class Histograms:
    """Histograms of one relative error at work."""

    relative_error: float

    def count(self, column: pa.Array, starts: Positions | None) -> pa.Array:
        """The histogram of each group's values; each row a group if None."""
        rows = len(column)
        total = rows if starts is None else len(starts)
        sizes = np.ones(rows, np.int64) if starts is None else np.diff(starts, append=rows)
        groups = np.repeat(np.arange(total), sizes)
        if column.null_count:
            groups = groups[present_rows(column)]
            column = column.drop_null()
        codes = _codes(column, self.relative_error)
        levels = np.zeros(total, np.int64)
        return _packed(_narrowed(_summed(groups, codes, np.ones(len(codes), np.int64), levels)))

    def reduce(self, states: pa.Array, starts: Positions) -> pa.Array:
        """The sum of each group's histograms."""
        return self._total(states.to_pylist(), [*starts.tolist(), len(states)])

    def merge(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """The sum of both."""
        if old.null_count == len(old):
            return new
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        states = [each for pair in pairs for each in pair]
        return self._total(states, range(0, len(states) + 1, 2))

    def _total(self, states: Sequence[bytes | None], bounds: Sequence[int]) -> pa.Array:
        """The sums of runs of states."""
        levels = np.zeros(len(bounds) - 1, np.int64)
        held = np.array([bool(state) for state in states], np.bool_)
        if not held.any():
            return pa.array([EMPTY] * len(levels), OPAQUE)
        owners = np.repeat(np.arange(len(levels)), np.diff(bounds))[held]
        parts = _parsed([state for state in states if state])
        np.maximum.at(levels, owners, parts.levels)
        groups = np.repeat(owners, parts.sizes)
        steps = levels[groups] - np.repeat(parts.levels, parts.sizes)
        codes = _raised(parts.codes, steps)
        return _packed(_narrowed(_summed(groups, codes, parts.counts, levels)))


def percentiles(
    state: bytes | None, relative_error: float, percentages: Sequence[float]
) -> list[float] | None:
    """Values near those at some ranks; None of no values.

    Raises:
        StateError: When the bytes are no histogram.
    """
    if not state:
        return None
    parts = _parsed([state])
    level = int(parts.levels[0])
    values = [_value(code, level, relative_error) for code in parts.codes.tolist()]
    order = sorted(range(len(values)), key=lambda i: (math.isnan(values[i]), values[i]))
    ends = np.cumsum(parts.counts[order])
    total = int(ends[-1])
    ranks = [max(math.ceil(round(p * total, 6)), 1) for p in percentages]
    return [values[order[int(np.searchsorted(ends, rank))]] for rank in ranks]


# --- buckets -------------------------------------------------------------------------------


def _width(relative_error: float) -> float:
    """How long an interval of logarithms is: a little less than the error would allow.

    Values whose logarithms are ``w`` apart differ by at most ``exp(w)``; the middle of such a
    bucket is off by at most ``tanh(w / 2)`` of the value, which is less than ``w / 2``.
    """
    return 2.0 * relative_error


def _codes(column: pa.Array, relative_error: float) -> Ints:
    """The bucket of each value on the lowest level."""
    values = column.cast(pa.float64(), safe=False).to_numpy()
    finite = np.isfinite(values) & (values != 0)
    fractions, exponents = np.frexp(np.abs(np.where(finite, values, 1.0)))
    logarithms = (exponents - 1) + (2.0 * fractions - 1.0)
    intervals = np.ceil(logarithms / _width(relative_error)).astype(np.int64)
    codes = intervals * _CLASSES + np.where(values < 0, _NEGATIVE, _POSITIVE)
    codes = np.where(finite, codes, _ZERO)
    codes = np.where(np.isneginf(values), _LOWEST, codes)
    codes = np.where(np.isposinf(values), _HIGHEST, codes)
    return np.where(np.isnan(values), _NAN, codes)


def _raised(codes: Ints, steps: Ints) -> Ints:
    """The buckets some levels up: interval ``i`` goes to ``ceil(i / 2)`` with each."""
    classes = codes & (_CLASSES - 1)
    return (-(-(codes >> 3) >> steps)) * _CLASSES + classes


def _value(code: int, level: int, relative_error: float) -> float:
    """What stands for the values of a bucket: equally far, as a share, from both its ends."""
    interval, kind = divmod(code, _CLASSES)
    fixed = {_LOWEST: -math.inf, _ZERO: 0.0, _HIGHEST: math.inf, _NAN: math.nan}
    if kind in fixed:
        return fixed[kind]
    width = _width(relative_error) * (1 << level)
    low, high = _power((interval - 1) * width), _power(interval * width)
    middle = low / (0.5 + 0.5 * low / high) if low else high
    return -middle if kind == _NEGATIVE else middle


def _power(logarithm: float) -> float:
    """The value of a logarithm that is linear between powers of two."""
    exponent = math.floor(logarithm)
    try:
        return math.ldexp(1.0 + (logarithm - exponent), exponent)
    except OverflowError:
        return np.finfo(np.float64).max.item()


def _summed(groups: Ints, codes: Ints, counts: Ints, levels: Ints) -> _Buckets:
    """One row for each bucket of each group."""
    if not len(codes):
        return _Buckets(groups, codes, counts, levels)
    order = np.lexsort((codes, groups))
    groups, codes = groups[order], codes[order]
    changed = np.ones(len(codes), np.bool_)
    changed[1:] = (groups[1:] != groups[:-1]) | (codes[1:] != codes[:-1])
    starts = np.flatnonzero(changed)
    return _Buckets(groups[starts], codes[starts], np.add.reduceat(counts[order], starts), levels)


def _narrowed(buckets: _Buckets) -> _Buckets:
    """Groups of too many buckets go up, level by level."""
    while True:
        sizes = np.bincount(buckets.groups, minlength=len(buckets.levels))
        wide = sizes > BUCKETS_MAX
        if not wide.any():
            return buckets
        codes = _raised(buckets.codes, wide[buckets.groups].astype(np.int64))
        buckets = _summed(buckets.groups, codes, buckets.counts, buckets.levels + wide)


# --- bytes ---------------------------------------------------------------------------------


def _packed(buckets: _Buckets) -> pa.Array:
    """One state for each group: its level, the width of its counts, codes and counts."""
    return pa.array(list(_states(buckets)), OPAQUE)


def _states(buckets: _Buckets) -> Iterator[bytes]:
    sizes = np.bincount(buckets.groups, minlength=len(buckets.levels))
    ends = np.cumsum(sizes)
    codes = buckets.codes.astype(_CODE).tobytes()
    narrow = buckets.counts.astype(_NARROW)
    limits = narrow.astype(np.int64) != buckets.counts
    for level, start, end in zip(
        buckets.levels.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True
    ):
        if start == end:
            yield EMPTY
            continue
        wide = bool(limits[start:end].any())
        counts = buckets.counts[start:end].astype(_WIDE) if wide else narrow[start:end]
        yield bytes((level, int(wide))) + codes[4 * start : 4 * end] + counts.tobytes()


@dataclass(frozen=True, slots=True)
class _Parts:
    """States taken apart, one after the other."""

    levels: Ints
    sizes: Ints
    """How many buckets each has."""
    codes: Ints
    counts: Ints


def _parsed(states: Sequence[bytes]) -> _Parts:
    """Take states apart, all at once.

    Raises:
        StateError: When some bytes are no histogram.
    """
    lengths = np.array([len(state) for state in states], np.int64)
    data = np.frombuffer(b"".join(states), np.uint8)
    begins = np.cumsum(lengths) - lengths
    widths = data[np.minimum(begins + 1, len(data) - 1)].astype(np.int64)
    entries = _CODE.itemsize + np.where(widths == 1, _WIDE.itemsize, _NARROW.itemsize)
    sizes, rest = np.divmod(lengths - _HEADER, entries)
    wrong = (rest != 0) | (sizes < 1) | (widths > 1)
    if wrong.any():
        raise StateError(
            "these bytes are no histogram",
            hint="they were damaged, or written under another schema",
            value=states[int(np.flatnonzero(wrong)[0])][:64].hex(),
        )
    place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    firsts = np.repeat(begins + _HEADER, sizes)
    codes = _words(data, firsts + place * _CODE.itemsize, _CODE)
    firsts += np.repeat(sizes, sizes) * _CODE.itemsize
    wide = np.repeat(widths == 1, sizes)
    counts = np.empty(len(codes), np.int64)
    for mask, kind in ((~wide, _NARROW), (wide, _WIDE)):
        counts[mask] = _words(data, firsts[mask] + place[mask] * kind.itemsize, kind)
    return _Parts(data[begins].astype(np.int64), sizes, codes, counts)


def _words(data: NDArray[np.uint8], positions: Ints, kind: np.dtype[Any]) -> Ints:
    """The numbers that begin at these positions."""
    matrix = data[positions[:, None] + np.arange(kind.itemsize)]
    words: Ints = matrix.view(kind).reshape(-1).astype(np.int64)
    return words
