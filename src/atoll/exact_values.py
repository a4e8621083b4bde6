"""Python values as Arrow columns, where Arrow's own conversion is not to be trusted.

Arrow moves the point of a decimal by a table that ends at 38 (76) places and does not look whether
the exponent lies within it: ``1E-10000000`` ends the process, ``1E-77`` silently becomes zero. And
it cuts what is no whole number for a column of integers. So what comes from outside is brought to
the column's own scale here, at any depth, and what does not fit exactly is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
    Rounded,
    localcontext,
)
from functools import lru_cache
from itertools import chain, islice, repeat
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from atoll.representable import refuse_misfits, type_holds

_SHOWN_CHARACTERS_MAX = 80
_ZERO = Decimal(0)
_ADDING = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation, Rounded])
_WHOLE = pa.decimal128(20, 0)
"""Room for every integer of 64 bits."""


def exact_array(
    values: Sequence[Any], kind: pa.DataType, *, from_pandas: bool | None = None
) -> pa.Array:
    """Arrow's array of these values, each of them kept exactly.

    Args:
        values: What ``pyarrow.array`` takes for the type, None for null.
        kind: Its decimals may lie in lists, maps and structs.
        from_pandas: As of ``pyarrow.array``.

    Raises:
        pa.ArrowInvalid: When a decimal has more digits than its type, on either side of the point,
            a value for integers is no whole number, one for small floats is too large, or a time
            is one that no datetime can be.
        pa.ArrowTypeError: When a value is of another type.
    """
    if type_holds(kind, _is_checked):
        if _is_plain(values, kind):
            with contextlib.suppress(pa.ArrowInvalid):  # zeros of high exponents, or a misfit
                return pa.array(values, kind, from_pandas=from_pandas)
        values = _exact(values, kind)
    made = pa.array(values, kind, from_pandas=from_pandas)
    refuse_misfits(made, lambda other: pa.array(values, other, from_pandas=from_pandas))
    return made


def holds_decimals(kind: pa.DataType) -> bool:
    """Whether it is a decimal, or one lies in it."""
    return type_holds(kind, pt.is_decimal)


def sound_decimals(kind: pa.DataType) -> bool:
    """Whether all decimals in it have a scale that Arrow can move, and write out."""
    return not type_holds(kind, _is_unsound)


def _is_unsound(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind) and abs(kind.scale) > (76 if pt.is_decimal256(kind) else 38))


def _is_checked(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind) or _is_counted(kind))


def _is_counted(kind: pa.DataType) -> bool:
    """Whether Arrow makes an integer of what it is given: of days and instants, too."""
    return bool(pt.is_integer(kind) or pt.is_temporal(kind))


def _is_plain(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Whether Arrow's own conversion is exact or fails; quickly told, so a no may be too many."""
    if pt.is_decimal(kind):
        return _adds_up(values, kind)
    kinds = set(map(type, values)) - {NoneType}
    if _is_counted(kind):
        return not any(issubclass(each, float | Decimal) for each in kinds)
    if not type_holds(kind, _is_checked):
        return True
    found = [value for value in values if value is not None]
    if pt.is_struct(kind) and kinds <= {dict}:
        fields = (field for field in kind if type_holds(field.type, _is_checked))
        return all(_is_plain([row.get(f.name) for row in found], f.type) for f in fields)
    if pt.is_list(kind) and kinds <= {list}:
        return _is_plain(list(chain.from_iterable(found)), kind.value_type)
    return False


def _adds_up(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Whether no decimal has more digits after the point than the type.

    An exact sum has as many as the longest of its parts; a context of few digits refuses to make
    it long.
    """
    found = [value for value in values if value is not None]
    if not set(map(type, found)) <= {Decimal}:
        return False
    try:
        with localcontext(_ADDING):
            exponent = sum(found, _ZERO).as_tuple().exponent
    except (Inexact, InvalidOperation, Rounded):
        return False
    return isinstance(exponent, int) and exponent >= -kind.scale


def _exact(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    """The values with their decimals at the column's scale; what is of no use is Arrow's to say."""
    if pt.is_decimal(kind):
        return _decimals(values, kind)
    if _is_counted(kind):
        return _whole(values)
    if pt.is_dictionary(kind) or not type_holds(kind, _is_checked):
        return values
    if pt.is_struct(kind):
        return _structs(values, kind)
    if pt.is_map(kind):
        return _maps(values, kind)
    found = [None if value is None else _elements(value) for value in values]
    elements = iter(_exact(list(_chained(found)), kind.value_type))
    return [None if each is None else list(islice(elements, len(each))) for each in found]


def _maps(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    found = [None if value is None else _pairs(value) for value in values]
    keys = _exact([key for key, _ in _chained(found)], kind.key_type)
    items = _exact([item for _, item in _chained(found)], kind.item_type)
    pairs = zip(keys, items, strict=True)
    return [None if each is None else list(islice(pairs, len(each))) for each in found]


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    pairs = list(value.items()) if isinstance(value, Mapping) else _elements(value)
    if all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):  # noqa: PLR2004
        return pairs
    raise pa.ArrowTypeError(f"{_shown(value)} is no map")


def _structs(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    names = [field.name for field in kind]
    rows = [_members(value, names) for value in values if value is not None]
    columns = [_exact([row[at] for row in rows], field.type) for at, field in enumerate(kind)]
    made = (dict(zip(names, members, strict=True)) for members in zip(*columns, strict=True))
    return [None if value is None else next(made) for value in values]


def _members(value: Any, names: list[str]) -> Sequence[Any]:
    """By name, or in order; a list is Arrow's third way, pairs of name and member."""
    if isinstance(value, list):
        value = dict(_pairs(value))
    if isinstance(value, Mapping):
        return [value.get(name) for name in names]
    if isinstance(value, tuple) and len(value) == len(names):
        return value
    raise pa.ArrowTypeError(f"{_shown(value)} is no struct of {', '.join(names)}")


def _elements(value: Any) -> list[Any]:
    sized = isinstance(value, Iterable) and isinstance(value, Sized)
    if not sized or isinstance(value, str | bytes | Mapping):
        raise pa.ArrowTypeError(f"{_shown(value)} is no sequence")
    return list(value)


def _chained(found: list[Any]) -> Iterator[Any]:
    return chain.from_iterable(each for each in found if each is not None)


def _decimals(values: Sequence[Any], kind: pa.DataType) -> Sequence[Any]:
    quantize, unit = _scaling(kind)
    try:
        if set(map(type, values)) == {Decimal}:
            return list(map(quantize, values, repeat(unit)))
        return [quantize(v, unit) if _is_number(v) else v for v in values]
    except (Inexact, InvalidOperation):
        raise _misfit(values, kind) from None


@lru_cache(maxsize=1024)
def _scaling(kind: pa.DataType) -> tuple[Callable[[Any, Decimal], Decimal], Decimal]:
    """What brings a decimal to a type's scale or raises, and the scale's unit."""
    traps: list[Any] = [Inexact, InvalidOperation]
    context = Context(prec=kind.precision, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=traps)
    return context.quantize, Decimal((0, (1,), -kind.scale))


def _is_number(value: Any) -> bool:
    return isinstance(value, Decimal | int) and not isinstance(value, bool)


def _misfit(values: Sequence[Any], kind: pa.DataType) -> pa.ArrowInvalid:
    """What to raise: it names the first of the values that does not fit."""
    quantize, unit = _scaling(kind)
    for value in filter(_is_number, values):
        try:
            quantize(value, unit)
        except (Inexact, InvalidOperation):
            words = f"decimal({kind.precision}, {kind.scale})"
            return pa.ArrowInvalid(f"{_shown(value)} does not fit {words} exactly")
    raise AssertionError("one of the values did not fit")


def _whole(values: Sequence[Any]) -> Sequence[Any]:
    """The values without Decimals, which Arrow cuts; floats must be whole."""
    kinds = set(map(type, values))
    if float in kinds:
        cut = [value for value in values if isinstance(value, float) and not value.is_integer()]
        if cut:
            raise pa.ArrowInvalid(f"{cut[0]!r} is no whole number")
    if not any(issubclass(each, Decimal) for each in kinds):
        return values
    digits = _decimals([v if isinstance(v, Decimal) else _ZERO for v in values], _WHOLE)
    if any(digit.is_nan() for digit in digits):
        raise pa.ArrowInvalid("NaN is no whole number")
    pairs = zip(values, digits, strict=True)
    return [int(digit) if isinstance(value, Decimal) else value for value, digit in pairs]


def _shown(value: Any) -> str:
    """The value in a message; an int of thousands of digits is not written out."""
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN_CHARACTERS_MAX:
        return f"an int of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}..."
