"""What the values of messages are, and how columns come of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import pyarrow as pa

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import REFUSALS_KEPT_MAX
from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Decoded(NamedTuple):
    """What came of values."""

    batch: pa.RecordBatch
    """The rows, in the order of the values."""
    sources: list[int] | range
    """For each row which value it is of."""
    refused: dict[int, str]
    """Which values cannot be decoded, and why."""


class Format(ABC):
    """How values become rows. Small and picklable: it travels with the program."""

    name: ClassVar[str]
    many: ClassVar[bool] = False
    """Whether a value may be several rows, or none."""
    refuses: ClassVar[bool] = True
    """Whether there are values that it cannot decode."""

    @property
    def text(self) -> str:
        """What hidden state of steps behind it goes by."""
        return self.name

    def check(self, schema: pa.Schema) -> None:
        """Hold that values can have such columns.

        Raises:
            DeclarationError: When they cannot.
        """
        RecordCodec(schema)

    @abstractmethod
    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """The rows of values, none of them null."""


@dataclass(frozen=True)
class Json(Format):
    """A JSON object per message; fields that the schema does not have are left out."""

    name: ClassVar[str] = "json"

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """As appended JSON is read."""
        codec = _json_codec(schema)
        checked = codec.from_json_texts(values)
        if not checked.refused_count:
            return Decoded(checked.batch, range(len(values)), {})
        batches: list[pa.RecordBatch] = []
        refused: dict[int, str] = {}
        for first in range(0, len(values), REFUSALS_KEPT_MAX):  # so that every reason is kept
            part = codec.from_json_texts(values[first : first + REFUSALS_KEPT_MAX])
            batches.append(part.batch)
            refused |= {first + each.line: each.reason for each in part.refusals}
        kept = [at for at in range(len(values)) if at not in refused]
        return Decoded(one_batch(batches, schema), kept, refused)


_codecs: dict[pa.Schema, RecordCodec] = {}


def _json_codec(schema: pa.Schema) -> RecordCodec:
    if schema not in _codecs:
        _codecs[schema] = RecordCodec(schema, strict=False)
    return _codecs[schema]


@dataclass(frozen=True)
class Raw(Format):
    """The value as it is, in a column of its own."""

    name: ClassVar[str] = "raw"
    refuses: ClassVar[bool] = False

    def check(self, schema: pa.Schema) -> None:
        """One binary column."""
        _check_single(self.name, schema, pa.binary())

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """As it is."""
        column = pa.array(values, pa.binary())
        return Decoded(pa.RecordBatch.from_arrays([column], schema=schema), range(len(values)), {})


@dataclass(frozen=True)
class Text(Format):
    """The value as text in UTF-8, in a column of its own."""

    name: ClassVar[str] = "text"

    def check(self, schema: pa.Schema) -> None:
        """One string column."""
        _check_single(self.name, schema, pa.string())

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """What is no UTF-8 is refused."""
        texts, kept = [], []
        refused: dict[int, str] = {}
        for at, value in enumerate(values):
            try:
                texts.append(value.decode("utf-8"))
                kept.append(at)
            except UnicodeDecodeError as error:
                refused[at] = f"not valid UTF-8: {error.reason} at byte {error.start}"
        column = pa.array(texts, pa.string())
        return Decoded(pa.RecordBatch.from_arrays([column], schema=schema), kept, refused)


@dataclass(frozen=True)
class Arrow(Format):
    """An Arrow IPC stream per message, whose columns are cast where no value changes."""

    name: ClassVar[str] = "arrow"
    many: ClassVar[bool] = True

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """A message of which a row does not fit is refused as a whole."""
        codec = RecordCodec(schema)
        batches: list[pa.RecordBatch] = []
        sources: list[int] = []
        refused: dict[int, str] = {}
        for at, value in enumerate(values):
            try:
                with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
                    table = reader.read_all()
                known = [name for name in table.column_names if name in schema.names]
                checked = codec.from_arrow(table.select(known))
            except (pa.ArrowException, OSError, ValueError) as error:
                refused[at] = f"no Arrow IPC stream: {error}"
                continue
            if checked.refused_count:
                first = checked.refusals[0]
                refused[at] = f"row {first.line}: {first.reason}"
                continue
            batches.append(checked.batch)
            sources += [at] * checked.batch.num_rows
        return Decoded(one_batch(batches, schema), sources, refused)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows in one batch."""
    return pa.concat_batches(batches) if batches else RecordCodec(schema).empty()


def _check_single(name: str, schema: pa.Schema, wanted: pa.DataType) -> None:
    if len(schema) != 1 or schema.field(0).type != wanted:
        raise DeclarationError(
            f"format {name!r} makes one column of type {wanted} of a value",
            hint="declare that column, and name those for key, timestamp and so on",
        )


def format_of(given: str | Format) -> Format:
    """The format that a name, or a format itself, means.

    Raises:
        DeclarationError: When there is none of that name.
    """
    if isinstance(given, Format):
        return given
    known = {each.name: each for each in (Json(), Raw(), Text(), Arrow())}
    if given not in known:
        raise DeclarationError(
            f"{given!r} is no format of messages", hint=f"use one of {', '.join(known)}"
        )
    return known[given]
