"""What tests do with topics: make, fill, read and delete them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

_numbers = itertools.count(1)
_WAIT_SECONDS = 30.0
_QUIET = {"log_level": 0}


def until(what: Callable[[], Any], seconds: float = _WAIT_SECONDS) -> Any:
    """What it gives as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return found


class Topics:
    """The topics of one broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address, **_QUIET})

    def make(self, partitions: int = 1, name: str = "", **config: object) -> str:
        """A new topic, which answers."""
        name = name or f"t{os.getpid()}-{next(_numbers)}"
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        made = NewTopic(name, partitions, 1, config=settings)
        self.admin.create_topics([made])[name].result(_WAIT_SECONDS)
        until(lambda: self._answers(name, partitions))
        return name

    def delete(self, topic: str) -> None:
        """Delete it, and return when it is gone."""
        self.admin.delete_topics([topic])[topic].result(_WAIT_SECONDS)
        until(lambda: topic not in self.admin.list_topics(timeout=10).topics)

    def widen(self, topic: str, partitions: int) -> None:
        """Give it more partitions."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(10)
        until(lambda: self._answers(topic, partitions))

    def drop_below(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete its oldest records, as retention does."""
        wanted = TopicPartition(topic, partition, offset)
        next(iter(self.admin.delete_records([wanted]).values())).result(_WAIT_SECONDS)

    def send(self, topic: str, values: Iterable[Any], **given: Any) -> None:
        """Produce values; a mapping says more of one than its value."""
        producer = Producer({"bootstrap.servers": self.address, **_QUIET})
        self.fill(producer, topic, values, **given)
        assert producer.flush(_WAIT_SECONDS) == 0

    def fill(self, producer: Producer, topic: str, values: Iterable[Any], **given: Any) -> None:
        """Hand values to a producer."""
        for each in values:
            said = each if isinstance(each, dict) else {"value": each}
            producer.produce(topic, **{"partition": 0, **given, **said})
            producer.poll(0)

    def transaction(self, topic: str, values: Iterable[Any], *, commits: bool, **more: Any) -> None:
        """Produce values in a transaction of their own."""
        name = f"tx{os.getpid()}-{next(_numbers)}"
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": name, **_QUIET})
        producer.init_transactions(_WAIT_SECONDS)
        producer.begin_transaction()
        self.fill(producer, topic, values, **more)
        assert producer.flush(_WAIT_SECONDS) == 0
        if commits:
            producer.commit_transaction(_WAIT_SECONDS)
        else:
            producer.abort_transaction(_WAIT_SECONDS)

    def ends(self, topic: str) -> list[int]:
        """By partition the offset after the last record that is decided."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        asked = {TopicPartition(topic, each): OffsetSpec.latest() for each in found}
        level = IsolationLevel.READ_COMMITTED
        told = self.admin.list_offsets(asked, isolation_level=level)
        ends = {at.partition: each.result(10).offset for at, each in told.items()}
        return [ends[each] for each in sorted(ends)]

    def read(self, topic: str) -> list[Any]:
        """All committed messages, partition after partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **_QUIET,
            }
        )
        found = []
        for partition in range(len(self.ends(topic))):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while (message := consumer.poll(_WAIT_SECONDS)).error() is None:
                found.append(message)
        consumer.close()
        return found

    def _answers(self, topic: str, partitions: int) -> bool:
        try:
            return len(self.ends(topic)) == partitions
        except (KafkaException, KeyError):
            return False
