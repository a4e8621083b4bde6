"""Reads exact ranges of a topic from a task: a range, the whole range, and nothing else.

An offset need not have a message: transactions leave marks behind, those that were aborted leave
what they had produced, and compaction takes messages away. So messages are never counted. A range
is complete when a message from behind it arrives, or when the broker says that its end is there.

Consumers stay in the process between microbatches: the next range begins where the last one
ended, so what was fetched meanwhile is there already.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from atoll.beats import present
from atoll.depot.logs.followed import LogRows
from atoll.depot.segments.blocks import BlockRef
from atoll.errors import LogError, OvertakenError
from atoll.kafka.settings import Settings, client
from atoll.kafka.topics import check_same_topic

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TYPES = {
    "key": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": _HEADERS,
    "partition": pa.int32(),
    "offset": pa.int64(),
}
_ROWS_MAX = 16_384
_WAIT_SECONDS = 0.01
"""So long a call may wait for the messages it asked for: at a hole they never come."""
_SILENT_SECONDS = 20.0
"""So long no message and no end may come before an attempt gives up."""
_CONSUMERS_MAX = 24
"""In one process: each has a few threads, and memory for what it fetches ahead."""
_FETCHING = {
    "group.id": "atoll-reads-by-offset",  # asked for by the client, and never used
    "enable.auto.commit": False,
    "auto.offset.reset": "error",  # whatever is gone must not be jumped over
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 4 << 20,
}


def message_schema(beside: Iterable[str]) -> pa.Schema:
    """A message as tasks read it: its value, and what else is asked for."""
    return pa.schema([("value", pa.binary()), *((each, _TYPES[each]) for each in beside)])


@dataclass(frozen=True)
class KafkaReader:
    """Reads one topic. Pickled with the program of a topology.

    Attributes:
        settings: How to connect.
        topic: The topic.
        topic_id: Which one of that name: offsets of another one mean something else.
        beside: What is asked for beside the values.
    """

    settings: Settings
    topic: str
    topic_id: str
    beside: tuple[str, ...] = ()

    def read(self, depot: str, refs: Sequence[BlockRef]) -> Iterator[tuple[int, LogRows]]:
        """The messages of ranges, as they are.

        Raises:
            OvertakenError: When retention has deleted offsets of a range.
            LogError: When they do not come, or the topic is another one.
        """
        schema = message_schema(self.beside)
        for index, ref in enumerate(refs):
            present().begin(("reading depot", depot, "partition", ref.partition))
            start = ref.offset + ref.skip
            with _consumers.use(self.settings, self.topic, ref.partition) as consumer:
                for messages in consumer.messages(start, start + ref.take):
                    present().beat()
                    yield index, _rows(messages, ref.partition, schema)
        # last: only now it is known that none of it came from a topic that was made again
        check_same_topic(self.settings, self.topic, self.topic_id)


def _rows(messages: list[Any], partition: int, schema: pa.Schema) -> LogRows:
    message_type: Any = client().Message
    offsets = np.fromiter(map(message_type.offset, messages), np.int64, len(messages))
    columns = [pa.array(list(map(message_type.value, messages)), pa.binary())]
    for each in schema.names[1:]:
        match each:
            case "key":
                column = pa.array(list(map(message_type.key, messages)), pa.binary())
            case "timestamp":
                times = [at if kind else None for kind, at in map(message_type.timestamp, messages)]
                column = pa.array(times, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
                column = column.cast(_TYPES["timestamp"])
            case "headers":
                column = pa.array(list(map(_headers, messages)), _HEADERS)
            case "partition":
                column = pa.array(np.full(len(messages), partition, np.int32))
            case _:
                column = pa.array(offsets)
        columns.append(column)
    return LogRows(pa.RecordBatch.from_arrays(columns, schema=schema), offsets)


def _headers(message: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in message.headers() or ()]


@dataclass
class _Partition:
    """A consumer of one partition, and how far it is."""

    settings: Settings
    topic: str
    partition: int
    at: int = -1
    """The offset that comes next; -1 before the first."""
    end: int = -1
    """The end that the broker told last: behind it there was nothing to read."""
    left: list[Any] = field(default_factory=list)
    """Messages that came from behind the last range."""

    def __post_init__(self) -> None:
        made = {name.replace(".", "_"): value for name, value in _FETCHING.items()}
        self._kafka = client()
        self._consumer = self._kafka.Consumer(self.settings.resolved(**made))

    def close(self) -> None:
        self._consumer.close()

    def messages(self, start: int, end: int) -> Iterator[list[Any]]:
        """All messages from ``start`` up to ``end``, some at a time."""
        if self.at != start:
            place = self._kafka.TopicPartition(self.topic, self.partition, start)
            self._consumer.assign([place])
            self.at, self.end, self.left = start, -1, []
        heard = time.monotonic()
        while self.at < end:
            came = self.left or self._consumer.consume(
                max(1, min(_ROWS_MAX, end - self.at)), _WAIT_SECONDS
            )
            self.left = []
            if came:
                heard = time.monotonic()
                good = self._sorted_out(came, end)
                if good:
                    yield good
                continue
            if self.end >= end:
                self.at = end
            present().beat()
            if time.monotonic() - heard > _SILENT_SECONDS:
                raise LogError(
                    f"topic {self.topic!r} is silent: offsets {self.at} to {end} did not come in "
                    f"{_SILENT_SECONDS:g} s",
                    hint="see whether the brokers run; it is tried again by itself",
                    topic=self.topic,
                    partition=self.partition,
                )

    def _sorted_out(self, came: list[Any], end: int) -> list[Any]:
        """Those before the end of the range; what is told beside them is noted."""
        if any(map(self._kafka.Message.error, came)):
            came = [each for each in came if not self._is_told(each)]
        if not came:
            if self.end >= end:
                self.at = end
            return []
        if came[-1].offset() >= end:
            offsets = [each.offset() for each in came]
            cut = int(np.searchsorted(offsets, end))
            self.left, came = came[cut:], came[:cut]
            self.at = end
        else:
            self.at = came[-1].offset() + 1
            if self.end >= end and self.end >= self.at:
                self.at = end
        return came

    def _is_told(self, message: Any) -> bool:
        """Whether it is no message but something told: an end, or what went wrong."""
        error = message.error()
        if error is None:
            return False
        known = self._kafka.KafkaError
        if error.code() == known._PARTITION_EOF:  # noqa: SLF001 - its public name
            self.end = max(self.end, message.offset())
            return True
        where = {"topic": self.topic, "partition": self.partition, "offset": self.at}
        if error.code() in (known._AUTO_OFFSET_RESET, known.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
            raise OvertakenError(
                f"offset {self.at} of topic {self.topic!r} is not there: retention deleted it, or "
                "the topic was made again",
                hint="see what the topic holds; Kafka(..., overtaken='skip') goes on without what "
                "retention deleted",
                **where,
            )
        if error.code() in (known.UNKNOWN_TOPIC_OR_PART, known._UNKNOWN_TOPIC):  # noqa: SLF001
            raise LogError(
                f"there is no topic {self.topic!r} any more, or no partition {self.partition}",
                hint="declare a depot of another name for another topic",
                **where,
            )
        if error.fatal() or not _passes(known, error.code()):
            raise LogError(
                f"topic {self.topic!r} cannot be read: {error.str()}",
                hint="it is tried again by itself; see the brokers' logs",
                **where,
            )
        return True


def _passes(known: Any, code: int) -> bool:
    """Whether a client goes on by itself."""
    return code in (
        known._ALL_BROKERS_DOWN,  # noqa: SLF001 - their public names
        known._TRANSPORT,  # noqa: SLF001
        known._RESOLVE,  # noqa: SLF001
        known._TIMED_OUT,  # noqa: SLF001
        known.NOT_LEADER_FOR_PARTITION,
        known.LEADER_NOT_AVAILABLE,
        known.REQUEST_TIMED_OUT,
    )


_Key = tuple[Settings, str, int]


class _Consumers:
    """The consumers of this process that nobody uses just now."""

    def __init__(self) -> None:
        self._idle: OrderedDict[_Key, list[_Partition]] = OrderedDict()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def use(self, settings: Settings, topic: str, partition: int) -> _Use:
        """One for a partition, for as long as it is used."""
        return _Use(self, (settings, topic, partition))

    def take(self, key: _Key) -> _Partition:
        with self._lock:
            if self._process != os.getpid():  # a fork has none of their threads
                self._idle.clear()
                self._process = os.getpid()
            idle = self._idle.get(key)
            if idle:
                return idle.pop()
        return _Partition(*key)

    def give_back(self, key: _Key, consumer: _Partition) -> None:
        gone: list[_Partition] = []
        with self._lock:
            self._idle.setdefault(key, []).append(consumer)
            self._idle.move_to_end(key)
            while sum(map(len, self._idle.values())) > _CONSUMERS_MAX:
                _, oldest = self._idle.popitem(last=False)
                gone += oldest
        for each in gone:
            each.close()


@dataclass
class _Use:
    pool: _Consumers
    key: _Key
    consumer: _Partition | None = None

    def __enter__(self) -> _Partition:
        self.consumer = self.pool.take(self.key)
        return self.consumer

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        assert self.consumer is not None, "it was entered"
        if kind is None:
            self.pool.give_back(self.key, self.consumer)
        else:  # nobody knows how far it is
            self.consumer.close()


_consumers = _Consumers()
