"""The type ``kafka-consumer``: see the class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import Event, Given, Result, State
from atoll.runtime.actors.kafka import KafkaClient
from atoll.runtime.events import event_of


class KafkaConsumerParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a kafka-consumer.

    Args:
        topic: What to read.
        kafka: Settings of the client; ``group.id`` and ``zookeeper.connect`` are needed.
    """

    topic: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    kafka: Annotated[dict[str, str], msgspec.Meta(max_length=100)]


class KafkaConsumer(KafkaClient[KafkaConsumerParams]):
    """Emits the messages of a topic that are JSON objects.

    Declared and checked only: there is no source for a broker yet, so a runtime with one cannot
    start.
    """

    name = "kafka-consumer"
    params = KafkaConsumerParams
    entry = True
    usual: ClassVar[dict[str, str]] = {
        "consumer.timeout.ms": "500",
        "auto.commit.enable": "false",
    }
    needed = ("group.id", "zookeeper.connect")
    others = (
        *("auto.offset.reset", "client.id", "fetch.message.max.bytes", "fetch.min.bytes"),
        *("fetch.wait.max.ms", "socket.timeout.ms", "zookeeper.connection.timeout.ms"),
        *("zookeeper.session.timeout.ms", "zookeeper.sync.time.ms"),
    )
    example: ClassVar[dict[str, Any]] = {
        "topic": "orders",
        "kafka": {"group.id": "shop", "zookeeper.connect": "localhost:2181"},
    }

    def trigger(
        self, params: KafkaConsumerParams, state: State, event: Event, given: Given
    ) -> Result:
        """Nothing: events are not sent here."""
        return Result(state, failure="a kafka-consumer takes no events")


def events_of(message: bytes) -> tuple[Event, ...]:
    """The event of a message; none when it is no JSON object."""
    event = event_of(message)
    return () if event is None else (event,)
