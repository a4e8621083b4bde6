"""Which column types may hold the values of which key."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from atoll.ddl import type_in_words
from atoll.errors import DeclarationError
from atoll.schema import Scalar

_FITS: dict[str, Callable[[pa.DataType], bool]] = {
    "bool": pt.is_boolean,
    "int": pt.is_integer,
    "float": lambda kind: pt.is_floating(kind) or pt.is_integer(kind),
    "str": lambda kind: pt.is_string(kind) or pt.is_large_string(kind),
    "bytes": lambda kind: pt.is_binary(kind) or pt.is_large_binary(kind),
    "date": pt.is_date,
    "datetime": pt.is_timestamp,
    "decimal": lambda kind: pt.is_decimal(kind) or pt.is_integer(kind),
    "tuple": pt.is_struct,
}


def check_key_type(column_type: pa.DataType, key: Scalar, column: str, place: str) -> None:
    """Hold that a column of this type can be a key of this kind.

    Raises:
        DeclarationError: With both types and what to change.
    """
    fits = _FITS[key.kind](column_type)
    if fits and key.kind == "tuple":
        fits = column_type.num_fields == len(key.items)
        for index, item in enumerate(key.items if fits else ()):
            check_key_type(column_type.field(index).type, item, f"{column}[{index}]", place)
    if not fits:
        raise DeclarationError(
            f"column {column!r} is of type {type_in_words(column_type)}, the PState's key is {key}",
            hint=f"cast the column, or declare the key as the column's type; a key of type {key} "
            "takes columns of the same kind",
            declared=place,
        )
