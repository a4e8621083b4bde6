"""The step behind a source of Kafka: messages in, rows of the declared columns out.

It is a step like any other: messages that it refuses go to the dead-letter depot as rows do on
which a user's function raises, counted at both ends and named by topic, partition and offset.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from atoll.errors import DataError
from atoll.kafka.formats import format_of
from atoll.topology.operator import BatchOperator, Makes
from atoll.topology.rows import Row, row_type, with_origins, without_origins
from atoll.topology.usercode import row_words

if TYPE_CHECKING:
    from atoll.kafka.topic import Topic
    from atoll.topology.usercode import Rejects

_ROW = row_type(("topic", "key", "value"))


@dataclass(frozen=True, eq=False)
class Decode(BatchOperator):
    """Decodes messages of a topic, at most one row of each."""

    makes: ClassVar[Makes] = "at most one"
    runs_own_code: ClassVar[bool] = True
    drawn: ClassVar[bool] = False
    in_queries: ClassVar[bool] = False

    depot: str
    kafka: Topic
    emitted: pa.Schema

    @property
    def title(self) -> str:
        """As messages name it."""
        return f"decode {format_of(self.kafka.format).name}"

    @property
    def sees_records(self) -> bool:
        """It names the messages that it refuses."""
        return format_of(self.kafka.format).refuses

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:  # noqa: ARG002 - as of any step
        """The declared columns."""
        return self.emitted

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,  # noqa: ARG002 - as of any step
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of messages; those that cannot be decoded are set aside, or end the attempt."""
        aside = rejects if self.kafka.malformed == "aside" else None
        for batch in batches:
            messages, origins = without_origins(batch)
            made, sources, refused = self._decoded(messages)
            for at in sorted(refused):
                origin = None if origins is None else origins[at].as_py()
                self._refuse(messages, at, refused[at], origin, aside)
            taken = None if origins is None else origins.take(sources)
            yield with_origins(made, taken)

    def _decoded(self, messages: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array, dict[int, str]]:
        """The rows, for each which message it is of, and the messages refused with the reason."""
        columns, refused = self._beside(messages)
        values = messages.column("value").to_pylist()
        there = [at for at, value in enumerate(values) if value is not None and at not in refused]
        wanted = self.kafka.of_value(self.emitted)
        found = format_of(self.kafka.format).decode([values[at] for at in there], wanted)
        refused |= {there[at]: reason for at, reason in found.refused.items()}
        sources, batch = [there[at] for at in found.sources], found.batch
        empty = [at for at, value in enumerate(values) if value is None and at not in refused]
        if empty and self.kafka.tombstones == "null" and all(each.nullable for each in wanted):
            batch = pa.concat_batches([batch, _nulls(wanted, len(empty))])
            order = sorted(range(batch.num_rows), key=[*sources, *empty].__getitem__)
            batch, sources = batch.take(pa.array(order)), sorted([*sources, *empty])
        elif empty and self.kafka.tombstones != "skip":
            needed = [each.name for each in wanted if not each.nullable]
            why = "the message has no value (a tombstone)"
            why += f", and column {needed[0]} is NOT NULL" if needed else ""
            refused |= dict.fromkeys(empty, why)
        taken = pa.array(sources, pa.int64())
        arrays = [
            columns[each.name].take(taken) if each.name in columns else batch.column(each.name)
            for each in self.emitted
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.emitted), taken, refused

    def _beside(self, messages: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The columns for what messages have beside their values."""
        columns: dict[str, pa.Array] = {}
        refused: dict[int, str] = {}
        for name, what in self.kafka.named.items():
            field, column = self.emitted.field(name), messages.column(what)
            if field.type == pa.string():
                column, bad = _texts(column)
                refused |= dict.fromkeys(bad, f"the {what} is not valid UTF-8")
            if not field.nullable and column.null_count:
                missing = [
                    at for at, there in enumerate(column.is_valid().to_pylist()) if not there
                ]
                refused |= {
                    at: f"the message has no {what}, and column {name} is NOT NULL"
                    for at in missing
                    if at not in refused
                }
            columns[name] = column
        return columns, refused

    def _refuse(
        self,
        messages: pa.RecordBatch,
        at: int,
        reason: str,
        origin: int | None,
        aside: Rejects | None,
    ) -> None:
        row = self._shown(messages, at)
        error = DataError(
            f"a message of topic {self.kafka.topic!r} cannot be decoded: {reason}",
            hint="give the topology a dead-letter depot and declare malformed='aside', or mend the "
            "schema",
            operator=self.title,
            declared=self.place,
            row=row_words(row),
        )
        if origin is not None:
            error.context["origin"] = origin
        if aside is None:
            raise error
        aside.add(self, row, origin, error)

    def _shown(self, messages: pa.RecordBatch, at: int) -> Row:
        """A message as a dead-letter depot keeps it."""
        row: Any = _ROW()
        row.topic = self.kafka.topic
        key = messages.column("key")[at].as_py() if "key" in messages.schema.names else None
        row.key, row.value = _legible(key), _legible(messages.column("value")[at].as_py())
        return row  # type: ignore[no-any-return]  # its class is made above


class DecodeMany(Decode):
    """Decodes messages of a topic that hold any number of rows."""

    makes: ClassVar[Makes] = "any"


def _legible(data: bytes | None) -> str | None:
    """Bytes as text; where they are none, in base64 with a mark."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def _texts(column: pa.Array) -> tuple[pa.Array, list[int]]:
    """Bytes as texts, null where they are none; and where that was."""
    try:
        return column.cast(pa.string()), []
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    bad = []
    for at, data in enumerate(column.to_pylist()):
        try:
            texts.append(None if data is None else data.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append(None)
            bad.append(at)
    return pa.array(texts, pa.string()), bad


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.nulls(count, each.type) for each in schema], schema=schema
    )
