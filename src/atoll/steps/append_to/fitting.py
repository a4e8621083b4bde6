"""Whether the rows of a stream can be records of a depot, by their columns alone.

A column fits when every value of its type is one of the depot's: of the same type, or of one that
Spark would widen without loss. What only a value can show (a null where the depot has NOT NULL) is
left to the tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from atoll.ddl import to_ddl, type_in_words
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from atoll.steps.append_to.declare import AppendTo

_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
"""How many decimal digits hold every integer of a type."""
_EXACT_BITS = {pa.float32(): 24, pa.float64(): 53}
"""How wide the integers are that a floating-point type holds exactly."""


def check_columns(step: AppendTo, rows: pa.Schema) -> None:
    """Hold that rows of these columns can be appended to the step's depot.

    Raises:
        DeclarationError: When a column is unknown to the depot, of another type, or missing.
    """
    depot = step.depot
    for column in rows:
        if column.name not in depot.schema.names:
            raise _misfit(step, f"has no column {column.name!r}", "leave it out with select(...)")
        wanted = depot.schema.field(column.name)
        if not widens(column.type, wanted.type):
            found, kept = type_in_words(column.type), type_in_words(wanted.type)
            raise _misfit(
                step,
                f"holds {kept} in column {column.name!r}, and the rows hold {found}",
                f'convert it: with_columns({column.name}="CAST({column.name} AS {kept})")',
            )
    for field in depot.schema:
        if not field.nullable and field.name not in rows.names:
            raise _misfit(
                step,
                f"needs a value in column {field.name!r}, which the rows do not have",
                "add it with with_columns(...), or declare it without NOT NULL",
            )


def widens(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is a value of the other."""
    if found == wanted or types.is_null(found):
        return True
    if types.is_struct(found) and types.is_struct(wanted):
        return _struct_widens(found, wanted)
    if types.is_map(found) and types.is_map(wanted):
        return widens(found.key_type, wanted.key_type) and widens(found.item_type, wanted.item_type)
    if _is_list(found) and _is_list(wanted):
        return widens(found.value_type, wanted.value_type)
    return _scalar_widens(found, wanted)


def _scalar_widens(found: pa.DataType, wanted: pa.DataType) -> bool:
    if types.is_decimal(wanted):
        room = wanted.precision - wanted.scale
        if types.is_decimal(found):
            return bool(found.scale <= wanted.scale and found.precision - found.scale <= room)
        return found in _DIGITS and room >= _DIGITS[found]
    if types.is_signed_integer(found):
        if types.is_signed_integer(wanted):
            return bool(found.bit_width <= wanted.bit_width)
        return bool(found.bit_width <= _EXACT_BITS.get(wanted, 0))
    if types.is_floating(found):
        return types.is_floating(wanted) and bool(found.bit_width <= wanted.bit_width)
    if types.is_large_string(found) or types.is_string_view(found):
        return bool(types.is_string(wanted))
    if types.is_large_binary(found) or types.is_binary_view(found):
        return bool(types.is_binary(wanted))
    return False


def _struct_widens(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Members by name; one that may be null may be missing."""
    there = {field.name: field for field in found}
    if set(there) - {field.name for field in wanted}:
        return False
    return all(
        widens(there[field.name].type, field.type) if field.name in there else field.nullable
        for field in wanted
    )


def _is_list(arrow_type: pa.DataType) -> bool:
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type))


def _misfit(step: AppendTo, problem: str, hint: str) -> DeclarationError:
    return DeclarationError(
        f"append_to: depot {step.depot.name!r} {problem}",
        hint=f"{hint}; the depot's schema is {to_ddl(step.depot.schema)}",
        declared=step.place,
    )
