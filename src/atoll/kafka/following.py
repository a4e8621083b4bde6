"""Follows a topic for the coordinators of a process: where it begins and ends, and what is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atoll.ddl import to_ddl
from atoll.depot.logs.followed import LogDepot
from atoll.depot.segments.blocks import BlockRef
from atoll.errors import LogError, OvertakenError
from atoll.kafka import topics
from atoll.kafka.formats import format_of
from atoll.kafka.reading import KafkaReader
from atoll.kafka.sampling import MeanBytes
from atoll.logs import get_logger

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.depot.start import StartFrom
    from atoll.kafka.topic import Topic

_log = get_logger("atoll.kafka")
_RUN_RECORDS = 1_000


class KafkaDepot(LogDepot):
    """A topic as a depot. Safe to share between threads.

    Args:
        name: The depot's name.
        declared: What was declared.
        schema: The declared columns.
        before: What the deployment that stands says of it.

    Raises:
        LogError: When no broker answers, there is no such topic, or it was made again.
    """

    def __init__(
        self, name: str, declared: Topic, schema: pa.Schema, before: Mapping[str, Any] | None
    ) -> None:
        self.name = name
        self.schema = schema
        self.migrations = ()
        self._declared = declared
        self._settings = declared.settings
        self._lock = threading.Lock()
        self._id, self._partitions = topics.described(self._settings, declared.topic)
        known = topics.known_id(before)
        if known is not None and known != self._id:
            raise topics.made_again(declared.topic, known, self._id)
        self._bytes = MeanBytes(self.reader)
        self._starts: tuple[int, ...] = ()
        self._ends: tuple[int, ...] = ()
        self._told: tuple[int, ...] = ()
        self.start_offsets()
        self.end_offsets()

    def __repr__(self) -> str:
        """Its name and topic: ``<depot 'bids' of topic 'bids'>``."""
        return f"<depot {self.name!r} of topic {self._declared.topic!r}>"

    @property
    def reader(self) -> KafkaReader:
        """What tasks read it with."""
        return KafkaReader(
            self._settings,
            self._declared.topic,
            self._id,
            tuple(self._declared.named.values()),
        )

    @property
    def described(self) -> Mapping[str, Any]:
        """Its topic, and which one of that name; the declared columns."""
        return {
            "topic": self._declared.topic,
            "topic_id": self._id,
            "format": format_of(self._declared.format).name,
            "ddl": to_ddl(self.schema),
        }

    def start_offsets(self) -> tuple[int, ...]:
        """By partition, the first offset that is still there; also finds new partitions."""
        found, count = topics.described(self._settings, self._declared.topic)
        if found != self._id:
            raise topics.made_again(self._declared.topic, self._id, found)
        starts = self._ask(topics.earliest(count))
        with self._lock:
            if count > self._partitions:
                _log.info("the topic has more partitions", depot=self.name, partitions=count)
            self._partitions = max(self._partitions, count)
            self._starts = starts
        return starts

    def end_offsets(self) -> tuple[int, ...]:
        """By partition, the offset after all that is decided: no open transaction is before it."""
        ends = self._ask(topics.latest(self._partitions))
        with self._lock:
            self._ends = ends
        return ends

    def last_seen(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Start and end offsets as they were last found."""
        return self._starts, self._ends

    def blocks(self, partition: int, start: int, end: int) -> list[BlockRef]:
        """The range itself: tasks find what is in it."""
        take, size = end - start, self._bytes.of(partition)
        return [
            BlockRef(
                "", 0, max(1, take * size), 0, take, 0, take, partition=partition, offset=start
            )
        ]

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes a range takes, by what messages there took last time: nobody tells."""
        each = self._bytes.looked_at(partition, start, end)
        runs, total = [], 0
        while start < end and total <= enough:
            until = min(end, start + _RUN_RECORDS)
            runs.append((until, (until - start) * each))
            total += runs[-1][1]
            start = until
        return runs

    def resolve_start(self, start_from: StartFrom) -> tuple[int, ...]:
        """The offset by partition at which a topology begins.

        Raises:
            LogError: When no broker answers.
        """
        starts, ends = self.start_offsets(), self.end_offsets()
        plain = start_from.offsets(starts, ends)
        if plain is not None:
            return plain
        after = start_from.after_ms(int(time.time() * 1000))
        found = self._ask(topics.at_time(len(ends), after + 1))
        return tuple(end if at < 0 else min(at, end) for at, end in zip(found, ends, strict=True))

    def check_progress(
        self, done: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        """Hold that all after what was read is there.

        Raises:
            OvertakenError: When retention has deleted some of it, and that is not declared.
            LogError: When the topic ends before it.
        """
        topic = self._declared.topic
        for partition, (at, end) in enumerate(zip(done, ends, strict=True)):
            if end < at:
                raise LogError(
                    f"topic {topic!r} has lost messages: partition {partition} ends at {end}, and "
                    f"{at} are read",
                    hint="was a replica elected that was behind? roll the topology back to before "
                    "that, or declare a depot of another name",
                    topic=topic,
                    partition=partition,
                )
        gone = {p: (at, start) for p, (at, start) in enumerate(zip(done, starts, strict=True))}
        gone = {p: (at, start) for p, (at, start) in gone.items() if start > at}
        if not gone:
            return
        count = sum(start - at for at, start in gone.values())
        if self._declared.overtaken == "skip":
            if self._told != tuple(starts):
                _log.warning(
                    "retention overtook a topology, which goes on as declared",
                    depot=self.name,
                    topic=topic,
                    offsets_skipped=count,
                    partitions=sorted(gone),
                )
                self._told = tuple(starts)
            return
        partition, (at, start) = next(iter(gone.items()))
        raise OvertakenError(
            f"retention of topic {topic!r} has deleted {count} offsets that were not read yet",
            hint="let the topic keep more; to go on with what is left declare "
            "Kafka(..., overtaken='skip') and deploy again",
            topic=topic,
            partition=partition,
            offset=at,
            oldest=start,
        )

    def _ask(self, specs: Sequence[Any]) -> tuple[int, ...]:
        return tuple(topics.offsets(self._settings, self._declared.topic, specs))
