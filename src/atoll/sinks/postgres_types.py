"""What columns of Arrow are in PostgreSQL, and their values as psycopg takes them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from atoll.errors import SinkError
from atoll.sinks.json_values import plain

if TYPE_CHECKING:
    from atoll.sinks.interface import SinkRows

_SIMPLE = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
}


def columns_of(rows: SinkRows, value: str) -> dict[str, pa.DataType]:
    """The table's columns: those of rows, or of the entries of a PState.

    Raises:
        SinkError: When two would have one name, or an entry has no key.
    """
    if not rows.changes:
        return {field.name: field.type for field in rows.schema}
    if not rows.keys:
        raise SinkError(
            "a PState that is one value has no keys to follow it by",
            hint="write its changes as rows: changes().select('new')",
        )
    found = {name: rows.schema.field(name).type for name in rows.keys}
    if rows.of == "elements":
        return found
    new = rows.schema.field("new").type
    fields = list(new) if types.is_struct(new) else [pa.field(value, new)]
    for field in fields:
        if field.name in found:
            raise SinkError(
                f"a key and a value would both be column {field.name!r}",
                hint="name the keys otherwise: changes('...'), or the value: value='...'",
            )
        found[field.name] = field.type
    return found


def type_of(found: pa.DataType) -> str:
    """The type of PostgreSQL that holds all values of one of Arrow's."""
    if found in _SIMPLE:
        return _SIMPLE[found]
    if types.is_decimal(found):
        return f"numeric({found.precision}, {found.scale})"
    if types.is_list(found) and (found.value_type in _SIMPLE or types.is_decimal(found.value_type)):
        return f"{type_of(found.value_type)}[]"
    return "jsonb"


def prepared(batch: pa.RecordBatch, rows: SinkRows, value: str, *, there: bool) -> pa.RecordBatch:
    """Of changes the entries that are there now, with a column per field; or the keys of others."""
    new = batch.column("new")
    is_there = new if rows.of == "elements" else pc.is_valid(new)
    kept = batch.filter(is_there if there else pc.invert(is_there))
    columns = {name: kept.column(name) for name in rows.keys}
    if there and rows.of == "entries":
        new = kept.column("new")
        if types.is_struct(new.type):
            columns |= {field.name: new.field(field.name) for field in new.type}
        else:
            columns[value] = new
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


_INTEGERS = {"smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()}
_TEXTS = ("text", "character varying", "character", "name")


def holds(kind: str, found: pa.DataType) -> bool:
    """Whether a column of PostgreSQL holds values of one of Arrow's types as they are.

    An integer may be too large for a narrower one; :func:`values_of` finds out. Nothing is rounded.
    """
    if types.is_integer(found):
        return kind in (*_INTEGERS, "numeric")
    if types.is_floating(found):
        return kind == "double precision" or kind == type_of(found)
    if types.is_decimal(found):
        return kind == "numeric"
    if types.is_string(found):
        return kind in _TEXTS
    wanted = type_of(found)
    return kind == wanted or (kind, wanted) in (
        ("json", "jsonb"),
        ("numeric[]", wanted if wanted.startswith("numeric(") else ""),
    )


def values_of(column: pa.Array, kind: str) -> Sequence[Any]:
    """The values of a column for one of PostgreSQL's types.

    Raises:
        SinkError: When an integer is too large: the driver would cut it.
    """
    if kind in _INTEGERS and types.is_integer(column.type):
        try:
            column = column.cast(_INTEGERS[kind])
        except pa.ArrowInvalid as error:
            raise SinkError(
                f"a {kind} does not hold all values: {error}",
                hint="widen the column of the table: ALTER TABLE ... ALTER COLUMN ... TYPE bigint",
            ) from error
    values: list[Any] = column.to_pylist()
    if kind in ("json", "jsonb"):
        make = _json(kind)
        return [None if value is None else make(plain(value, column.type)) for value in values]
    return values


def _json(kind: str) -> Callable[[Any], Any]:
    from psycopg.types.json import Json, Jsonb

    dumps = functools.partial(json.dumps, ensure_ascii=False)
    return functools.partial(Jsonb if kind == "jsonb" else Json, dumps=dumps)
