"""Arrow columns fitted to a depot's schema, and the rows found that do not fit.

A column is cast only within its family (integers to integers, timestamps to timestamps, ...), and
only where no value changes; a string never becomes a number unasked. When a cast fails, halving
finds the rows that are to blame, so one bad row in a million costs twenty casts.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from atoll.aggregates.kernels.types import exact_cast
from atoll.ddl import type_to_ddl
from atoll.exact_values import sound_decimals
from atoll.representable import beyond_datetime, too_large


def needs_rows(found: pa.DataType, field: pa.Field) -> bool:
    """Whether a column must be checked value by value: nested, and not of the very type."""
    if not types.is_nested(field.type):
        return False
    if types.is_null(found):
        return False
    return found != field.type or _has_required(field.type)


def column_misfit(found: pa.DataType, field: pa.Field) -> str | None:
    """Why no value of a column of this type can fit the field, or None."""
    if not sound_decimals(found):
        return f"column {field.name}: no decimals of the scale of {found} can be read"
    if found == field.type or types.is_null(found) or types.is_nested(field.type):
        return None
    if types.is_dictionary(found):
        found = found.value_type
    wanted = field.type
    fits = (
        (_is_number(found) and _is_number(wanted))
        or (types.is_boolean(found) and types.is_boolean(wanted))
        or (_is_string(found) and (_is_string(wanted) or _is_time(wanted)))
        or (_is_binary(found) and _is_binary(wanted))
        or (types.is_date(found) and types.is_date(wanted))
        or (types.is_timestamp(found) and types.is_timestamp(wanted))
    )
    if types.is_timestamp(found) and wanted == pa.timestamp("us") and found.tz is not None:
        return f"column {field.name}: expected timestamps without a time zone, got {found}"
    if fits:
        return None
    return f"column {field.name}: expected {type_to_ddl(wanted).lower()}, got {found}"


def unreadable_times(data: pa.Table | pa.RecordBatch) -> dict[int, str]:
    """Per row with a time that no datetime can be, the reason to refuse it."""
    bad: dict[int, str] = {}
    for name, column in zip(data.schema.names, data.columns, strict=True):
        at = 0
        for part in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            beyond = beyond_datetime(part)
            if beyond is not None:
                for row in (at + beyond.nonzero()[0]).tolist():
                    bad.setdefault(row, f"column {name}: a time before the year 1 or after 9999")
            at += len(part)
    return bad


def fit_rows(column: pa.Array, field: pa.Field) -> tuple[pa.Array, dict[int, str]]:
    """The column cast to the field's type, and per row that does not fit, the reason.

    Rows that do not fit are null in the result.
    """
    bad: dict[int, str] = {}
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == field.type:
        fitted = column
    else:
        parts: list[pa.Array] = []
        _cast_parts(column, field, 0, parts, bad)
        fitted = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    if not field.nullable and fitted.null_count:
        for row in pc.indices_nonzero(pc.is_null(fitted)).to_pylist():
            bad.setdefault(row, f"column {field.name}: missing, and it is declared NOT NULL")
    return fitted, bad


def _cast_parts(
    column: pa.Array, field: pa.Field, offset: int, parts: list[pa.Array], bad: dict[int, str]
) -> None:
    """Append the casts of the column's slices in order, halving where a cast fails."""
    try:
        parts.append(_cast(column, field.type))
        return
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        if len(column) <= 1:
            value = column[0].as_py()
            text = f"column {field.name}: {value!r} does not fit {type_to_ddl(field.type).lower()}"
            bad[offset] = text if len(text) < 200 else f"{text[:200]}... ({type(error).__name__})"  # noqa: PLR2004
            parts.append(pa.nulls(1, field.type))
            return
    middle = len(column) // 2
    _cast_parts(column.slice(0, middle), field, offset, parts, bad)
    _cast_parts(column.slice(middle), field, offset + middle, parts, bad)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if types.is_decimal(wanted):
        return exact_cast(column, wanted)
    fitted = column.cast(options=pc.CastOptions(wanted, allow_time_truncate=True))
    if types.is_float32(wanted) and too_large(fitted, column) is not None:
        raise pa.ArrowInvalid("a number is too large for a float of 32 bits")
    return fitted


def _has_required(arrow_type: pa.DataType) -> bool:
    """Whether a NOT NULL lies inside the type (a map's keys are not asked for here)."""
    if types.is_struct(arrow_type):
        return any(not field.nullable or _has_required(field.type) for field in arrow_type)
    if types.is_list(arrow_type):
        return not arrow_type.value_field.nullable or _has_required(arrow_type.value_type)
    if types.is_map(arrow_type):
        return _has_required(arrow_type.key_type) or _has_required(arrow_type.item_type)
    return False


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(
        types.is_integer(arrow_type)
        or types.is_floating(arrow_type)
        or types.is_decimal(arrow_type)
    )


def _is_string(arrow_type: pa.DataType) -> bool:
    return bool(
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_string_view(arrow_type)
    )


def _is_binary(arrow_type: pa.DataType) -> bool:
    return bool(
        types.is_binary(arrow_type)
        or types.is_large_binary(arrow_type)
        or types.is_binary_view(arrow_type)
        or types.is_fixed_size_binary(arrow_type)
    )


def _is_time(arrow_type: pa.DataType) -> bool:
    return bool(types.is_timestamp(arrow_type) or types.is_date(arrow_type))
