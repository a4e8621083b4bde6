"""Records of a depot: checked one by one on their way in, turned back to rows on their way out.

Whatever a caller appends (rows, JSON lines, CSV, Arrow, pandas) becomes one Arrow batch with the
depot's schema. A record that does not fit is refused with its line and a reason that names the
column; the others are not held up by it. The usual case, all records good, runs in C throughout:
only a part of the input that holds a bad record is taken apart.

Timestamps without a time zone mean UTC. A field that may be null may be missing.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from atoll.codec.records.arrow import column_misfit, fit_rows, needs_rows, unreadable_times
from atoll.codec.records.refusals import REFUSALS_KEPT_MAX, Checked, Refusal, Refusals
from atoll.codec.records.types import converter, record_type
from atoll.ddl import type_to_ddl
from atoll.errors import UsageError
from atoll.exact_values import exact_array, holds_decimals
from atoll.objects import plain
from atoll.python_values import python_rows
from atoll.representable import holds_infinity, refuse_misfits

_BAD_VALUE = (
    pa.ArrowException,
    AttributeError,  # msgspec asks whatever can be indexed for the keys of a map
    OverflowError,
    TypeError,
    UnicodeError,
    ValueError,  # also what msgspec raises
)
_ONE_BY_ONE_MAX = 32
_FLOAT_DIGITS_MAX = 308
_AT_PATH = re.compile(r" - at (?:`key` in )?`\$(?:\[\d+\])?\.?(?P<path>[^`]*)`\Z")


class RecordCodec:
    """Checks records against one schema.

    Cheap to keep, safe to share between threads, picklable.

    Args:
        schema: The depot's, with the types of :mod:`atoll.ddl`.
        strict: Whether a field that the schema does not have is refused; else it is left out.
    """

    def __init__(self, schema: pa.Schema, *, strict: bool = True) -> None:
        self.schema = schema
        self._strict = strict
        self._type = record_type(list(schema), strict=strict)
        self._types = list[self._type]  # type: ignore[name-defined]
        self._decoder = msgspec.json.Decoder(self._type)
        self._columns = [
            (attrgetter(f"f{index}"), converter(field.type), field.type)
            for index, field in enumerate(schema)
        ]
        self._keeps_empty = {
            field.name
            for field in schema
            if not field.nullable and (field.type in {pa.string(), pa.binary()})
        }
        self._nested = {field.name for field in schema if pa.types.is_nested(field.type)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the schema."""
        return (_codec, (self.schema, self._strict))

    def empty(self) -> pa.RecordBatch:
        """A batch without records."""
        return self.batch_of([])

    def batch_of(self, records: list[Any]) -> pa.RecordBatch:
        """One batch of records that this codec has checked before (``Checked.records``)."""
        columns = [
            self._array(list(map(get, records)), convert, arrow_type)
            for get, convert, arrow_type in self._columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def from_rows(self, rows: Iterable[Mapping[str, Any]], first_line: int = 1) -> Checked:
        """Check Python rows; a row that is no mapping is refused."""
        found = rows if isinstance(rows, list) else list(rows)
        return self._from_rows(found, range(first_line, first_line + len(found)))

    def _from_rows(self, rows: list[Any], lines: Sequence[int]) -> Checked:
        try:
            records = msgspec.convert(rows, self._types)
        except _BAD_VALUE:
            return self._sift(rows, lines, self._convert_all, self._convert_plain)
        checked = self._assemble(records, lines, Refusals())
        if holds_infinity(checked.batch) and any(map(_beyond_floats, rows)):
            return self._sift(rows, lines, self._convert_all, self._convert_plain)
        return checked

    def from_json_lines(self, data: bytes, first_line: int = 1) -> Checked:
        """Check JSON objects, one a line; blank lines are stepped over but counted."""
        try:
            records = self._decoder.decode_lines(data)
            if len(records) == data.count(b"\n") + (not data.endswith(b"\n")):
                lines: Sequence[int] = range(first_line, first_line + len(records))
                return self._assemble(records, lines, Refusals())
        except _BAD_VALUE:
            pass
        texts, lines = [], []
        for line, text in enumerate(data.split(b"\n"), first_line):
            if text and not text.isspace():
                texts.append(text)
                lines.append(line)
        return self._sift(texts, lines, self._decode_all, self._decoder.decode)

    def from_json_texts(self, texts: Sequence[bytes]) -> Checked:
        """Check JSON objects, each a text of its own, which may have several lines.

        Refusals name the text's position, from 0.
        """

        def decode_all(part: Sequence[bytes]) -> list[Any]:
            return list(map(self._decoder.decode, part))

        return self._sift(texts, range(len(texts)), decode_all, self._decoder.decode)

    def from_cells(
        self, columns: Sequence[str], cells: Sequence[Sequence[str]], lines: Sequence[int]
    ) -> Checked:
        """Check rows of text cells, as a CSV file has them.

        An empty cell is a missing value, except in a string column declared NOT NULL, where it is
        the empty string. Nested columns hold JSON.

        Args:
            columns: The columns' names, in the order of the cells.
            cells: The rows.
            lines: Each row's line.

        Raises:
            UsageError: When a column is not in the schema or stands twice.
        """
        unknown = [name for name in columns if name not in self.schema.names]
        if unknown or len(set(columns)) != len(columns):
            raise UsageError(
                "the CSV header does not fit the depot's schema",
                hint=f"name columns out of {', '.join(self.schema.names)}, each once",
                columns=list(columns),
            )

        def convert(row: Sequence[str]) -> Any:
            if len(row) != len(columns):
                raise ValueError(f"{len(row)} cells where the header names {len(columns)}")
            return msgspec.convert(self._named(columns, row), self._type, strict=False)

        def convert_all(rows: Sequence[Sequence[str]]) -> list[Any]:
            return [convert(row) for row in rows]

        return self._sift(cells, lines, convert_all, convert)

    def from_arrow(self, data: pa.Table | pa.RecordBatch, first_line: int = 1) -> Checked:
        """Check Arrow data: columns by name, cast only where no value changes."""
        misfit = self._arrow_misfit(data.schema)
        if misfit is not None:
            return self._refuse_all(data.num_rows, misfit, first_line)
        lines: Sequence[int] = range(first_line, first_line + data.num_rows)
        bad = unreadable_times(data)
        if not bad:
            return self._from_arrow(data, lines)
        good = [at not in bad for at in range(data.num_rows)]
        kept = [line for line, there in zip(lines, good, strict=True) if there]
        checked = self._from_arrow(data.filter(pa.array(good, pa.bool_())), kept)
        return checked.without({lines[at]: reason for at, reason in bad.items()})

    def _from_arrow(self, data: pa.Table | pa.RecordBatch, lines: Sequence[int]) -> Checked:
        names = data.schema.names
        fields = [field for field in self.schema if field.name in names]
        if any(needs_rows(data.schema.field(field.name).type, field) for field in fields):
            return self._from_rows(python_rows(data), lines)
        columns: list[pa.Array] = []
        bad: dict[int, str] = {}
        for field in self.schema:
            column = data.column(field.name) if field.name in names else None
            fitted, reasons = fit_rows(_one_array(column, data.num_rows, field), field)
            columns.append(fitted)
            for row, reason in reasons.items():
                bad.setdefault(row, reason)
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return _without(batch, bad, lines, Refusals())

    def from_pandas(self, frame: Any, first_line: int = 1) -> Checked:
        """Check a pandas DataFrame; its index is left out, NaN is null."""
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            objects = frame.astype(object)
            rows = objects.where(objects.notna(), None).to_dict("records")
            return self.from_rows(rows, first_line)
        return self.from_arrow(table.replace_schema_metadata(None), first_line)

    def to_rows(self, batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
        """The records as dicts of Python values, as steps see them."""
        return python_rows(batch)

    # -- taking apart what holds bad records -------------------------------------------------

    def _sift(
        self,
        items: Sequence[Any],
        lines: Sequence[int],
        all_of: Callable[[Sequence[Any]], list[Any]],
        one_of: Callable[[Any], Any],
    ) -> Checked:
        """Check items in bulk, halving where that fails, one by one where few are left."""
        records: list[Any] = []
        kept: list[int] = []
        refusals = Refusals()
        pending = [(0, len(items))]
        while pending:
            start, end = pending.pop()
            try:
                found = all_of(items[start:end])
                records += found
                kept += lines[start:end]
            except _BAD_VALUE:
                if end - start > _ONE_BY_ONE_MAX:
                    middle = (start + end) // 2
                    pending += [(middle, end), (start, middle)]
                    continue
                for at in range(start, end):
                    try:
                        records.append(one_of(items[at]))
                        kept.append(lines[at])
                    except _BAD_VALUE as error:
                        refusals.add(lines[at], _reason(error))
        return self._assemble(records, kept, refusals)

    def _convert_all(self, rows: Sequence[Any]) -> list[Any]:
        if any(map(_beyond_floats, rows)):
            raise ValueError("a Decimal beyond floats")
        return msgspec.convert(rows, self._types)

    def _convert_plain(self, row: Any) -> Any:
        if not isinstance(row, Mapping):
            raise TypeError(f"a record is a mapping of names to values, not {type(row).__name__}")
        for name, value in row.items():
            great = _beyond_floats(value)
            if great is not None:
                raise ValueError(f"column {name}: {great} is beyond what a number here can be")
        try:
            return msgspec.convert(_plain(row), self._type)
        except _BAD_VALUE as error:  # it may hold objects, of a class or of the standard library
            try:
                return msgspec.convert(plain(row), self._type)
            except _BAD_VALUE:
                raise error from None

    def _decode_all(self, texts: Sequence[bytes]) -> list[Any]:
        records = self._decoder.decode_lines(b"\n".join(texts))
        if len(records) != len(texts):
            raise ValueError("a line that is no record")
        return records

    def _named(self, columns: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
        return {
            name: msgspec.json.decode(cell) if name in self._nested else cell
            for name, cell in zip(columns, row, strict=True)
            if cell or name in self._keeps_empty
        }

    # -- from checked records to columns -----------------------------------------------------

    def _assemble(self, records: list[Any], lines: Sequence[int], refusals: Refusals) -> Checked:
        """One batch of checked records; what Arrow cannot hold after all is refused here."""
        try:
            return Checked(self.batch_of(records), refusals.kept, refusals.count, records)
        except _BAD_VALUE:
            good, late = [], {}
            for at, record in enumerate(records):
                try:
                    self.batch_of([record])
                    good.append(record)
                except _BAD_VALUE:
                    late[lines[at]] = self._late_reason(record)
        checked = Checked(self.batch_of(good), refusals.kept, refusals.count, good)
        return checked.without(late)

    @staticmethod
    def _array(
        values: list[Any], convert: Callable[[Any], Any] | None, arrow_type: pa.DataType
    ) -> pa.Array:
        if convert is not None:
            values = list(map(convert, values))
        if holds_decimals(arrow_type):
            return exact_array(values, arrow_type)
        made = pa.array(values, arrow_type)
        refuse_misfits(made, lambda other: pa.array(values, other))
        return made

    def _late_reason(self, record: Any) -> str:
        for (get, convert, arrow_type), field in zip(self._columns, self.schema, strict=True):
            try:
                self._array([get(record)], convert, arrow_type)
            except _BAD_VALUE:
                return (
                    f"column {field.name}: the value does not fit {type_to_ddl(field.type).lower()}"
                )
        return "the record does not fit the schema"

    # -- Arrow -------------------------------------------------------------------------------

    def _arrow_misfit(self, schema: pa.Schema) -> str | None:
        """Why no record of a table with this schema can fit, or None."""
        for name in schema.names:
            if name not in self.schema.names:
                return f"unknown field {name}"
            if schema.names.count(name) > 1:
                return f"column {name}: it stands twice"
        for field in self.schema:
            if field.name in schema.names:
                misfit = column_misfit(schema.field(field.name).type, field)
                if misfit is not None:
                    return misfit
            elif not field.nullable:
                return f"column {field.name}: missing, and it is declared NOT NULL"
        return None

    def _refuse_all(self, count: int, reason: str, first_line: int) -> Checked:
        shown = range(first_line, first_line + min(count, REFUSALS_KEPT_MAX))
        return Checked(self.empty(), [Refusal(line, reason) for line in shown], count)


def _codec(schema: pa.Schema, strict: bool) -> RecordCodec:  # noqa: FBT001  # as pickled
    return RecordCodec(schema, strict=strict)


def _one_array(column: Any, count: int, field: pa.Field) -> pa.Array:
    if column is None:
        return pa.nulls(count, field.type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # more than one array can hold
            raise UsageError("too much text in one append", hint="append in smaller parts")
    return column


def _without(
    batch: pa.RecordBatch, bad: dict[int, str], lines: Sequence[int], refusals: Refusals
) -> Checked:
    if not bad:
        return Checked(batch, [], 0)
    for row in sorted(bad):
        refusals.add(lines[row], bad[row])
    mask = np.ones(batch.num_rows, dtype=bool)
    mask[list(bad)] = False
    return Checked(batch.filter(pa.array(mask)), refusals.kept, refusals.count)


def _plain(value: Any) -> Any:
    """The value in Python's own types: numpy's scalars and arrays and pandas' times undone."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(item) for item in value]
    if isinstance(value, dt.datetime) and hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return value


def _beyond_floats(value: Any) -> Decimal | None:
    """A finite Decimal in it that would be an infinite float, and so fits no column, or None."""
    if isinstance(value, Decimal):
        great = value.is_finite() and value.adjusted() >= _FLOAT_DIGITS_MAX
        return value if great and math.isinf(float(value)) else None
    if isinstance(value, Mapping):
        parts: Iterable[Any] = chain(value, value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    else:
        return None
    return next((found for found in map(_beyond_floats, parts) if found is not None), None)


def _reason(error: Exception) -> str:
    """The reason in words of a record: which column, and what was expected there."""
    message = str(error)
    match = _AT_PATH.search(message)
    if match is not None:
        message = message[: match.start()].replace("`", "").replace(" | null", "")
        if match["path"]:
            return f"column {match['path']}: {message[:1].lower()}{message[1:]}"
    message = message.replace("Object contains unknown field", "unknown field")
    message = message.replace("Object missing required field", "missing required field")
    if isinstance(error, UnicodeError):
        message = "not valid UTF-8"
    elif isinstance(error, AttributeError):
        message = f"a map is given as a mapping: {message}"
    elif isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        message = f"not valid JSON: {message}"
    return message.replace("`", "")
