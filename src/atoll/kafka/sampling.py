"""How many bytes a message takes, about: no broker tells, so a few are read now and then."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from atoll.depot.segments.blocks import BlockRef
from atoll.errors import AtollError

if TYPE_CHECKING:
    from atoll.kafka.reading import KafkaReader

_GUESS_BYTES = 256
_SAMPLE = 100
_WORTH_RECORDS = 20_000
"""Ranges below that take no memory worth a look."""
_AGAIN_SECONDS = 30.0


class MeanBytes:
    """The mean size of a topic's messages, by partition.

    Args:
        reader: Reads the topic.
    """

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._found: dict[int, int] = {}
        self._due: dict[int, float] = {}

    def of(self, partition: int) -> int:
        """As it was last found; nothing is read."""
        return self._found.get(partition, _GUESS_BYTES)

    def looked_at(self, partition: int, start: int, end: int) -> int:
        """The mean of a range; where it is long and was not looked at lately, of its beginning."""
        now = time.monotonic()
        if end - start >= _WORTH_RECORDS and now >= self._due.get(partition, 0.0):
            self._due[partition] = now + _AGAIN_SECONDS
            take = min(_SAMPLE, end - start)
            ref = BlockRef("", 0, 0, 0, take, 0, take, partition=partition, offset=start)
            try:
                parts = [rows.batch for _, rows in self._reader.read("", [ref])]
            except AtollError:
                return self.of(partition)  # who reads the range says what is wrong
            rows = sum(each.num_rows for each in parts)
            if rows:
                self._found[partition] = max(1, sum(each.nbytes for each in parts) // rows)
        return self.of(partition)
