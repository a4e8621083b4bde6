"""Rows brought together by key, and folded before they cross an exchange.

Grouping finds an order of the rows in which equal keys are adjacent and arrival order holds
within a key. Keys become small integers first; those and the rows' positions are then packed
into one 64-bit number each, so that a plain sort of numbers (fast: it uses the processor's
vector instructions) is also a stable one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.order import float_codes, int_codes
from atoll.aggregates.kernels.segments import present_rows, taken
from atoll.errors import UsageError

Ints = NDArray[np.int64]

SAMPLE_ROWS = 4096
"""How many rows the test for distinct keys looks at."""

DISTINCT_SHARE_MAX = 0.75
"""Partial states are built where at most this share of the rows is expected to be left."""

_PACKED_BITS = 63
_UNKNOWN_SPAN = 1 << _PACKED_BITS


@dataclass(frozen=True, slots=True)
class Grouping:
    """Where the rows of each key are.

    ``order`` are all rows, those of one key adjacent and in arrival order; ``starts`` are the
    positions in ``order`` where a key begins. The order of the keys means nothing.
    """

    order: Ints
    starts: Ints

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.starts)

    @property
    def first_rows(self) -> Ints:
        """The first row of each group."""
        return self.order[self.starts]


def group(key_columns: Sequence[pa.Array], rows: int | None = None) -> Grouping:
    """Group rows by key.

    Nulls are equal to each other, NaN to NaN, -0.0 to 0.0. Without key columns all rows are one
    group, and ``rows`` must say how many there are.

    Args:
        key_columns: Arrow arrays of one length, of any scalar type, dictionaries or structs.
        rows: The number of rows; needed only without key columns.

    Raises:
        UsageError: When neither key columns nor rows are given.
    """
    if not key_columns:
        if rows is None:
            raise UsageError("rows without keys to group by", hint="say how many rows there are")
        return Grouping(np.arange(rows), np.zeros(min(rows, 1), np.int64))
    codes, span = _codes_of(key_columns)
    return _grouped(codes, span)


def worth_combining(key_columns: Sequence[pa.Array], rows: int) -> bool:
    """Whether grouping would leave markedly fewer rows, judged by a sample."""
    if not key_columns or rows <= SAMPLE_ROWS:
        return rows > 1
    return estimate_distinct(key_columns, rows) <= DISTINCT_SHARE_MAX * rows


def estimate_distinct(key_columns: Sequence[pa.Array], rows: int) -> float:
    """About how many distinct keys the rows hold, from the pairs of equal keys in a sample.

    With ``K`` keys, ``s`` rows hold about ``s * s / 2K`` equal pairs. Uneven keys make more
    pairs and so a lower estimate, which is also what grouping would gain from them.
    """
    step = max(rows // SAMPLE_ROWS, 1)
    positions = np.arange(SAMPLE_ROWS) * step
    sample = group([taken(column, positions) for column in key_columns])
    sizes = np.diff(sample.starts, append=SAMPLE_ROWS)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    if not pairs:
        return float(rows)
    keys = SAMPLE_ROWS * SAMPLE_ROWS / (2 * pairs)
    return float(keys * -np.expm1(-rows / keys))


# --- keys as integers ----------------------------------------------------------------------


def _codes_of(key_columns: Sequence[pa.Array]) -> tuple[Ints, int]:
    """One integer per row that equal keys share, from 0 to below the span."""
    codes, span = _column_codes(key_columns[0])
    for column in key_columns[1:]:
        more, more_span = _column_codes(column)
        if span * more_span >= _UNKNOWN_SPAN:
            codes, span = _dense(codes)
            more, more_span = _dense(more)
        codes = codes * more_span + more
        span *= more_span
    return codes, span


def _column_codes(column: pa.Array) -> tuple[Ints, int]:
    """As :func:`_codes_of`, of one column."""
    if pa.types.is_struct(column.type):
        return _struct_codes(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    numbers = float_codes(column) if pa.types.is_floating(column.type) else int_codes(column)
    if numbers is None:
        return _dictionary_codes(column)
    low, high = _limits(numbers)
    if column.null_count:
        if high - low >= _UNKNOWN_SPAN - 1:
            numbers, high = _dense(numbers)
            low = 0
        valid = present_rows(column)
        return np.where(valid, numbers - low + 1, 0), high - low + 2
    if high - low >= _UNKNOWN_SPAN:
        return _dense(numbers)
    return numbers - low if low else numbers, high - low + 1


def _limits(numbers: Ints) -> tuple[int, int]:
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)


def _dictionary_codes(column: pa.Array) -> tuple[Ints, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _struct_codes(column: pa.Array) -> tuple[Ints, int]:
    """Those of its members; a null struct differs from one whose members are null."""
    members = column.flatten()
    if column.null_count:
        members = [column.is_valid(), *members]
    return _codes_of(members) if members else (np.zeros(len(column), np.int64), 1)


def _dense(codes: Ints) -> tuple[Ints, int]:
    """The same equalities in the least span."""
    return _dictionary_codes(pa.array(codes))


# --- the sort ------------------------------------------------------------------------------


def _grouped(codes: Ints, span: int) -> Grouping:
    rows = len(codes)
    position_bits = max(rows - 1, 0).bit_length()
    if span.bit_length() + position_bits <= _PACKED_BITS:
        packed = (codes << position_bits) | np.arange(rows)
        packed.sort()
        starts = np.flatnonzero(_changes(packed >> position_bits))
    else:
        unstable = np.argsort(codes)
        changed = _changes(codes[unstable])
        packed = (np.cumsum(changed) << position_bits) | unstable
        packed.sort()
        starts = np.flatnonzero(changed)
    return Grouping(packed & ((1 << position_bits) - 1), starts)


def _changes(ordered: Ints) -> NDArray[np.bool_]:
    """Where a value begins, in a column whose equal values are adjacent."""
    changed = np.empty(len(ordered), np.bool_)
    changed[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=changed[1:])
    return changed
