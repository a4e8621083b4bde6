"""The type ``kafka-producer``: see the class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import Event, Given, Result, State
from atoll.runtime.actors.kafka import KafkaClient
from atoll.runtime.events import compact


class KafkaProducerParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a kafka-producer.

    Args:
        topic: What to write to.
        kafka: Settings of the client; ``metadata.broker.list`` is needed.
    """

    topic: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    kafka: Annotated[dict[str, str], msgspec.Meta(max_length=100)]


class KafkaProducer(KafkaClient[KafkaProducerParams]):
    """Sends the events `{"key": text, "message": object}` to a topic; emits nothing.

    The key may be left out. Declared and checked only: there is no sink for a broker yet, so a
    runtime with one cannot start.
    """

    name = "kafka-producer"
    params = KafkaProducerParams
    emits = False
    usual: ClassVar[dict[str, str]] = {"producer.type": "async"}
    needed = ("metadata.broker.list",)
    others = (
        *("client.id", "compression.codec", "message.send.max.retries", "request.required.acks"),
        *("request.timeout.ms", "retry.backoff.ms"),
    )
    example: ClassVar[dict[str, Any]] = {
        "topic": "orders",
        "kafka": {"metadata.broker.list": "localhost:9092"},
    }

    def trigger(
        self, params: KafkaProducerParams, state: State, event: Event, given: Given
    ) -> Result:
        """A failure: nobody would send the message."""
        return Result(state, failure="there is no sink for a broker yet")


def message_of(event: Event) -> tuple[str | None, str] | None:
    """The key and the body that an event is sent as; None when it is no such event."""
    key, message = event.get("key"), event.get("message")
    if not isinstance(message, dict) or not (key is None or isinstance(key, str)):
        return None
    return key, compact(message)
