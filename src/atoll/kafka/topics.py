"""Asks brokers about a topic: which one it is, its partitions, where they begin and end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from atoll.errors import LogError
from atoll.kafka.settings import Settings, client

_ANSWER_SECONDS = 5.0
_SETTLE_SECONDS = 5.0
_SETTLE_LOOK_SECONDS = 0.05
_Made = TypeVar("_Made")


def check_same_topic(settings: Settings, topic: str, topic_id: str) -> None:
    """Hold that a topic is still the same.

    Raises:
        LogError: When it is gone, or another one has its name.
    """
    found, _ = described(settings, topic)
    if found != topic_id:
        raise made_again(topic, topic_id, found)


def made_again(topic: str, before: str, now: str) -> LogError:
    """What to say of a topic that is another one."""
    return LogError(
        f"topic {topic!r} was deleted and made again: its offsets mean other messages now",
        hint="declare a depot of another name for the new topic, and remove this one",
        topic=topic,
        topic_id=now,
        topic_id_before=before,
    )


def described(settings: Settings, topic: str) -> tuple[str, int]:
    """Which topic it is, and how many partitions it has.

    Raises:
        LogError: When no broker answers, or there is no such topic.
    """
    kafka = client()
    asked = admin(settings).describe_topics(
        kafka.TopicCollection([topic]), request_timeout=_ANSWER_SECONDS
    )
    told = _answer(topic, asked[topic])
    return str(told.topic_id), len(told.partitions)


def offsets(settings: Settings, topic: str, specs: Sequence[Any]) -> list[int]:
    """For each partition in turn the offset that a spec asks for, of what is committed.

    Raises:
        LogError: When no broker answers.
    """
    kafka = client()
    places = [kafka.TopicPartition(topic, partition) for partition in range(len(specs))]

    def ask() -> list[int]:
        told = admin(settings).list_offsets(
            dict(zip(places, specs, strict=True)),
            isolation_level=kafka.IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        return [_answer(topic, told[place]).offset for place in places]

    return _settled(ask) if places else []


def _settled(ask: Callable[[], _Made]) -> _Made:
    """What is asked, when a leader is there: one that was just chosen is not known at once."""
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        try:
            return ask()
        except LogError as error:
            if not error.context.get("settles") or time.monotonic() > until:
                raise
        time.sleep(_SETTLE_LOOK_SECONDS)


def _answer(topic: str, future: Any) -> Any:
    kafka = client()
    try:
        return future.result(_ANSWER_SECONDS + 1)
    except (kafka.KafkaException, TimeoutError) as error:
        told = error.args[0] if error.args else None
        code = told.code() if isinstance(told, kafka.KafkaError) else None
        known = kafka.KafkaError
        if code in (known.UNKNOWN_TOPIC_OR_PART, known._UNKNOWN_TOPIC):  # noqa: SLF001
            raise LogError(
                f"there is no topic {topic!r}",
                hint="make it, or see whether these are the brokers that have it",
                topic=topic,
            ) from error
        settles = code in (known.NOT_LEADER_FOR_PARTITION, known.LEADER_NOT_AVAILABLE)
        said = told.str() if isinstance(told, kafka.KafkaError) else "no answer"
        raise LogError(
            f"the brokers say nothing of topic {topic!r}: {said}",
            hint="see whether they run and can be reached; a topology waits and tries again",
            topic=topic,
            **({"settles": True} if settles else {}),
        ) from error


def admin(settings: Settings) -> Any:
    """The client that asks, one per process and settings."""
    return _admin(settings, os.getpid())


@lru_cache(maxsize=16)
def _admin(settings: Settings, _process: int) -> Any:
    return client().admin.AdminClient(settings.resolved(socket_timeout_ms=10_000))


def earliest(count: int) -> list[Any]:
    """Asks for the first offset of so many partitions."""
    return [client().admin.OffsetSpec.earliest()] * count


def latest(count: int) -> list[Any]:
    """Asks for the end of what is decided."""
    return [client().admin.OffsetSpec.latest()] * count


def at_time(count: int, timestamp_ms: int) -> list[Any]:
    """Asks for the first message at a time or after it; -1 where there is none."""
    return [client().admin.OffsetSpec.for_timestamp(timestamp_ms)] * count


def known_id(before: Mapping[str, Any] | None) -> str | None:
    """Which topic a deployment that stands has read."""
    return None if before is None else str(before["topic_id"])
