"""A topic as a sink: each microbatch is one transaction, which holds its number too.

The number goes into the offsets of a consumer group of the sink's own, in the transaction of the
rows: both are there or neither, and whoever comes later reads it there. One transactional id
belongs to one sink, so opening it fences whoever wrote before, however late that one wakes up.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from atoll.errors import SinkError, UsageError
from atoll.kafka.settings import Settings, checked_options, client
from atoll.python_values import python_rows
from atoll.secret import Secret
from atoll.sinks.interface import Guarantee, Opening, Sink, SinkParcel, SinkRows, SinkWriter

_BATCH = 10_000
_SECONDS = 15.0
"""How long brokers may take to answer; longer is tried again by a new writer."""
_GRACE_SECONDS = 1.0
_TRANSACTION_MS = 300_000
"""How long brokers keep a transaction open whose writer died; the next writer ends it at once."""
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class KafkaTopic(Sink):
    """Writes to a topic of Kafka, each microbatch in a transaction; exactly once.

    Readers with ``isolation.level=read_committed`` see a microbatch whole, once, after its commit.
    Rows with the same key stay in order. Of a PState's changes each is a message under the
    entry's key with its new value, and one without a value where the entry is gone: what a
    compacted topic wants.

    Args:
        brokers: ``host:port``, several separated by commas.
        topic: The topic; it has to be there.
        key: The column for the messages' keys: text or binary as it is, any other as JSON.
        value: The column for their values, likewise; None: a JSON object of all columns.
        headers: The column for headers, ``array<struct<key string, value binary>>``; it is not
            part of that object.
        options: Further settings of librdkafka, as of :class:`atoll.Kafka`.

    Raises:
        DeclarationError: When an option cannot be.
    """

    kind: ClassVar[str] = "kafka"
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    brokers: str
    topic: str
    key: str | None = field(default=None, kw_only=True)
    value: str | None = field(default=None, kw_only=True)
    headers: str | None = field(default=None, kw_only=True)
    options: Mapping[str, str | int | bool | Secret] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        checked_options(self.brokers, self.topic, self.options)

    @property
    def target(self) -> str:
        """The topic and its brokers."""
        return f"kafka://{self.brokers}/{self.topic}"

    @property
    def signature(self) -> Mapping[str, str]:
        """The topic, and what the messages' keys are."""
        return {"topic": self.topic, "key": self.key or ""}

    def check(self, rows: SinkRows) -> None:
        """Hold that the columns are there.

        Raises:
            SinkError: When one is not.
        """
        named = {"key": self.key, "value": self.value, "headers": self.headers}
        for what, name in named.items():
            if name is not None and rows.changes:
                raise SinkError(
                    f"{what}={name!r} says nothing of a PState's changes, whose keys and values "
                    "are the messages'",
                    hint=f"leave {what} out",
                )
            if name is not None and name not in rows.schema.names:
                raise SinkError(
                    f"{what}={name!r} names no column of the rows",
                    hint=f"they have {', '.join(rows.schema.names)}",
                )
        if self.headers is not None and rows.schema.field(self.headers).type != _HEADERS:
            raise SinkError(
                f"column {self.headers} cannot be headers",
                hint="let it be array<struct<key string, value binary>>",
            )

    def open(self, opening: Opening) -> KafkaWriter:
        """Fence whoever wrote before, and end what it left open."""
        return KafkaWriter(self, opening)


class KafkaWriter(SinkWriter):
    """Writes the parcels of one sink."""

    def __init__(self, sink: KafkaTopic, opening: Opening) -> None:
        """No answer from before counts any more.

        Raises:
            SinkError: When no broker answers, or the topic is not there.
        """
        self._sink, self._opening = sink, opening
        self._kafka = client()
        self._failed: Any = None
        self._hangs = False
        settings = Settings(sink.brokers, tuple(sorted(sink.options.items())))
        name = "atoll/" + opening.identity
        own: dict[str, Any] = {
            "transactional.id": name,
            "transaction.timeout.ms": _TRANSACTION_MS,
            "linger.ms": 2,
        }
        try:
            given = {"partitioner": "murmur2_random", **settings.resolved(), **own}
            self._producer = self._kafka.Producer(given)
            asked = {**settings.resolved(), "group.id": name, "enable.auto.commit": False}
            self._consumer = self._kafka.Consumer(asked)
        except UsageError as error:
            raise SinkError(error.message, hint=error.hint, sink=opening.identity) from error
        self._mark = self._kafka.TopicPartition(sink.topic, 0)
        self._asked(lambda: self._producer.init_transactions(_SECONDS))
        found = self._asked(lambda: self._producer.list_topics(sink.topic, _SECONDS))
        if found.topics[sink.topic].error is not None:
            raise SinkError(
                f"there is no topic {sink.topic!r}",
                hint="make it; the sink goes on by itself",
                topic=sink.topic,
            )
        self._last = self.last_written()

    def last_written(self) -> int:
        """The number in the last transaction that was committed."""
        (found,) = self._asked(lambda: self._consumer.committed([self._mark], _SECONDS))
        if found.error is not None:
            raise self._error(found.error)
        return max(0, int(found.offset))

    def write(self, parcel: SinkParcel) -> None:
        """Produce all rows and the number in one transaction."""
        hint = "give the sink the topic and the brokers that it wrote to before"
        if not parcel.is_next(self._last, self._sink.target, hint):
            return
        self._asked(self._producer.begin_transaction)
        for batch in parcel.batches():
            for messages in self._messages(batch):
                self._produce(messages)
        if self._producer.flush(_SECONDS):
            raise SinkError(
                f"topic {self._sink.topic!r} did not take all rows in {_SECONDS:g} s",
                hint="see whether the brokers run; it is tried again by itself",
                topic=self._sink.topic,
            )
        about = f"microbatch={parcel.microbatch} timeline={parcel.timeline}"
        topic, at = self._mark.topic, self._mark.partition
        mark = self._kafka.TopicPartition(topic, at, parcel.number, about)
        group = self._consumer.consumer_group_metadata()
        self._asked(lambda: self._producer.send_offsets_to_transaction([mark], group, _SECONDS))
        if self._failed is not None:  # the commit would say less
            raise self._error(self._failed)
        self._asked(lambda: self._producer.commit_transaction(_SECONDS))
        self._last = parcel.number

    def close(self) -> None:
        """Let go of the brokers; what is open is ended by the next writer, or by its timeout."""
        if not self._hangs:
            self._producer.purge()
            self._consumer.close()

    def _messages(self, batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
        for first in range(0, batch.num_rows, _BATCH):
            part = batch.slice(first, _BATCH)
            rows = python_rows(part)
            if self._opening.rows.changes:
                yield [self._change(row) for row in rows]
            else:
                yield [self._message(row) for row in rows]

    def _message(self, row: dict[str, Any]) -> dict[str, Any]:
        sink = self._sink
        made: dict[str, Any] = {}
        if sink.headers is not None:
            given = row.pop(sink.headers) or []
            made["headers"] = [(each["key"], each["value"]) for each in given]
        made["key"] = None if sink.key is None else as_bytes(row[sink.key])
        made["value"] = as_json(row) if sink.value is None else as_bytes(row[sink.value])
        return made

    def _change(self, row: dict[str, Any]) -> dict[str, Any]:
        keys = [row[name] for name in self._opening.rows.keys]
        key = as_bytes(keys[0] if len(keys) == 1 else keys)
        return {"key": key, "value": None if row["new"] is None else as_json(row["new"])}

    def _produce(self, messages: list[dict[str, Any]]) -> None:
        """Hand messages over; where the queue is full, let it get emptier."""
        for each in messages:
            while True:
                try:
                    self._producer.produce(self._sink.topic, on_delivery=self._delivered, **each)
                    break
                except BufferError:
                    self._producer.poll(0.05)
                except self._kafka.KafkaException as error:
                    raise self._error(error.args[0]) from error
            if self._failed is not None:
                raise self._error(self._failed)
        self._producer.poll(0)

    def _delivered(self, error: Any, _message: Any) -> None:
        self._failed = self._failed or error

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What the brokers answer.

        In a thread of its own: when a broker is started again some calls of librdkafka wait for
        ever, whatever timeout they are given. One that is left behind is fenced by the next writer.
        """
        answer: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

        def call() -> None:
            try:
                answer.put((ask(), None))
            except Exception as error:  # noqa: BLE001 - raised by who asks
                answer.put((None, error))

        threading.Thread(target=call, name="atoll-kafka-asks", daemon=True).start()
        try:
            found, error = answer.get(timeout=_SECONDS + _GRACE_SECONDS)
        except queue.Empty:
            self._hangs = True
            raise SinkError(
                f"the brokers of topic {self._sink.topic!r} did not answer in {_SECONDS:g} s",
                hint="see whether they run; it is tried again by itself",
                topic=self._sink.topic,
            ) from None
        if isinstance(error, self._kafka.KafkaException):
            raise self._error(error.args[0]) from error
        if error is not None:
            raise error
        return found

    def _error(self, error: Any) -> SinkError:
        known = self._kafka.KafkaError
        fenced = error.code() in (known._FENCED, known.INVALID_PRODUCER_EPOCH)  # noqa: SLF001
        return SinkError(
            f"topic {self._sink.topic!r} cannot be written: {error.str()}",
            hint="another process writes this sink now"
            if fenced
            else "see whether the brokers run; it is tried again by itself",
            topic=self._sink.topic,
        )


def as_bytes(value: Any) -> bytes | None:
    """Text and binary as they are, any other value as JSON; null as no bytes."""
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
    return as_json(value)


def as_json(value: Any) -> bytes:
    """A value as JSON: binary in base64, and as texts the numbers that JSON does not have."""
    return _encode(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {_key(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


def _key(key: Any) -> Any:
    return key if isinstance(key, str) else as_json(key).decode().strip('"')
