"""Which column types may hold the values of which key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from atoll.arrow_types import holds
from atoll.ddl import type_in_words
from atoll.errors import DeclarationError
from atoll.schema import Scalar


def check_key_type(column_type: pa.DataType, key: Scalar, column: str, place: str) -> None:
    """Hold that a column of this type can be a key of this kind.

    Raises:
        DeclarationError: With both types and what to change.
    """
    fits = _fits(column_type, key.kind)
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


def _fits(column_type: pa.DataType, kind: str) -> bool:
    if kind == "tuple":
        return bool(pt.is_struct(column_type))
    if kind == "datetime":
        return bool(pt.is_timestamp(column_type))
    return holds(column_type, kind)
