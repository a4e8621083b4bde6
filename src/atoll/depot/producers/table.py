"""Producers: who appends, and up to which number, so that an append sent again is stored once.

A producer numbers its appends. Whoever lost a reply sends the same append with the same number
again; the depot compares with the numbers that it remembers and answers as it did the first time.
What it remembers is written in the same frame as the records, so that both are there or neither.

Everything here is plain decisions on plain data: the writer thread alone uses a table, and gives
it the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from atoll.errors import ProducerError, UsageError

TOPOLOGY_PREFIX = "topology/"
"""How the ids of topologies' producers begin."""

OWN_PREFIXES = (TOPOLOGY_PREFIX, "source/")
"""How the ids of Atoll's own producers begin: their entries neither expire nor make room."""


def topology_producer(module: str, topology: str) -> str:
    """As which producer a topology appends to the depots of its module."""
    return f"{TOPOLOGY_PREFIX}{module}/{topology}"


def source_producer(module: str, depot: str, digest: str) -> str:
    """As which producer a source feeds its depot, and sets records aside in another one."""
    return f"source/{module}/{depot}/{digest}"


PRODUCER_SECONDS_MAX = 7 * 86_400.0
"""How long a producer that appends nothing is remembered, unless declared otherwise."""
PRODUCERS_MAX = 10_000
MARKS_KEPT_MAX = 5
_ID_CHARACTERS_MAX = 160
_NUMBER_MAX = 2**63 - 1


class Producer(msgspec.Struct, frozen=True):
    """Who appends, and the number of this append.

    Attributes:
        id: Names the producer: 1 to 160 characters. Two that append at once need two ids.
        sequence: The append's number: the first one any, then each one higher.
        epoch: The producer's life; a higher one ends all lower ones and counts anew.
        gaps: Whether numbers may be left out.

    Raises:
        UsageError: When one of them cannot be.
    """

    id: str
    sequence: int
    epoch: int = 0
    gaps: bool = False

    def __post_init__(self) -> None:
        """Refuse what a table cannot hold."""
        if not isinstance(self.id, str) or not 1 <= len(self.id) <= _ID_CHARACTERS_MAX:
            raise UsageError(
                "that is no producer's id",
                hint=f"use a name of 1 to {_ID_CHARACTERS_MAX} characters",
                producer=str(self.id)[:_ID_CHARACTERS_MAX],
            )
        if any("\ud800" <= character <= "\udfff" for character in self.id):
            raise UsageError("a producer's id must be text that UTF-8 can write")
        for what, number in (("sequence", self.sequence), ("epoch", self.epoch)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise UsageError(f"a producer's {what} is a whole number", producer=self.id)
            if not 0 <= number <= _NUMBER_MAX:
                raise UsageError(
                    f"a producer's {what} cannot be {number}",
                    hint="count from 0 up, within 63 bits",
                    producer=self.id,
                )


class ProducerMark(msgspec.Struct, frozen=True, array_like=True):
    """One append of a producer, as frames hold it.

    Attributes:
        id: The producer.
        epoch: Its epoch.
        sequence: The append's number.
        crc: CRC-32 of the records.
        time_ms: Append time, epoch milliseconds.
        offsets: Depot partition, first offset and the one after the last, for each that got any.
    """

    id: str
    epoch: int
    sequence: int
    crc: int
    time_ms: int
    offsets: list[tuple[int, int, int]]


class Append(msgspec.Struct, frozen=True):
    """The decision that the append is new: store it."""


class Duplicate(msgspec.Struct, frozen=True):
    """The decision that the append is stored already.

    Attributes:
        offsets: Those that it got then; empty when that is too long ago.
    """

    offsets: dict[int, tuple[int, int]]


class ProducerTable:
    """The last appends of each producer, in order of the producers' last appends.

    Args:
        seconds_max: How long a producer that appends nothing is remembered.
        producers_max: How many there may be; beyond that those go that were silent for longest.
    """

    def __init__(
        self, seconds_max: float = PRODUCER_SECONDS_MAX, producers_max: int = PRODUCERS_MAX
    ) -> None:
        self.seconds_max = seconds_max
        self.producers_max = producers_max
        self._marks: dict[str, tuple[ProducerMark, ...]] = {}

    def __len__(self) -> int:
        """How many producers it knows."""
        return len(self._marks)

    def marks(self, producer_id: str, now_ms: int) -> tuple[ProducerMark, ...]:
        """A producer's last appends, oldest first; none when it is unknown or expired."""
        marks = self._marks.get(producer_id, ())
        return () if marks and self._expired(marks, now_ms) else marks

    def newest(self, most: int, now_ms: int) -> list[ProducerMark]:
        """The last append of each producer, newest first, of so many at most."""
        last = [marks[-1] for marks in self._marks.values() if not self._expired(marks, now_ms)]
        return last[::-1][:most]

    def admit(self, producer: Producer, crc: int, now_ms: int) -> Append | Duplicate:
        """Decide about one append by what the table holds; it does not change.

        Raises:
            ProducerError: When the append fits neither as a new one nor as one sent again.
        """
        return _decide(self.marks(producer.id, now_ms), producer, crc)

    def apply(self, marks: Iterable[ProducerMark]) -> None:
        """Take in appends that are stored, in their order; those known already change nothing."""
        for mark in marks:
            known = self._marks.get(mark.id, ())
            if not known or mark.epoch >= known[-1].epoch:
                following = _following(known, mark)
                if following is not known:
                    self._marks.pop(mark.id, None)  # last appended, last in order
                    self._marks[mark.id] = following
        self._make_room()

    def snapshot(self, now_ms: int) -> list[ProducerMark]:
        """All that a new segment must carry: applied to an empty table it makes this one."""
        return [
            mark
            for marks in self._marks.values()
            if not self._expired(marks, now_ms)
            for mark in marks
        ]

    def expire(self, now_ms: int) -> None:
        """Forget the producers that have been silent for too long."""
        gone = [key for key, marks in self._marks.items() if self._expired(marks, now_ms)]
        for key in gone:
            del self._marks[key]

    def _expired(self, marks: tuple[ProducerMark, ...], now_ms: int) -> bool:
        last = marks[-1]
        return last.time_ms + self.seconds_max * 1000 < now_ms and not last.id.startswith(
            OWN_PREFIXES
        )

    def _make_room(self) -> None:
        excess = len(self._marks) - self.producers_max
        if excess > 0:
            for key in list(_first(self._marks, excess)):
                del self._marks[key]


class Admission:
    """Decides about the appends of one group: those before in the group count as stored.

    Args:
        table: What is stored; it does not change.
        now_ms: The group's append time, epoch milliseconds.
    """

    def __init__(self, table: ProducerTable, now_ms: int) -> None:
        self.now_ms = now_ms
        self._table = table
        self._pending: dict[str, tuple[ProducerMark, ...]] = {}

    def admit(self, producer: Producer, crc: int) -> Append | Duplicate:
        """As :meth:`ProducerTable.admit`, after the group's earlier appends."""
        return _decide(self._marks(producer.id), producer, crc)

    def pending(self, producer_id: str) -> bool:
        """Whether what is decided about the producer depends on the group being stored."""
        return producer_id in self._pending

    def add(
        self, producer: Producer, crc: int, offsets: dict[int, tuple[int, int]]
    ) -> ProducerMark:
        """Count an append of the group as stored; returns what its frame must carry."""
        spans = [(partition, *span) for partition, span in offsets.items()]
        mark = ProducerMark(producer.id, producer.epoch, producer.sequence, crc, self.now_ms, spans)
        self._pending[producer.id] = _following(self._marks(producer.id), mark)
        return mark

    def _marks(self, producer_id: str) -> tuple[ProducerMark, ...]:
        found = self._pending.get(producer_id)
        return self._table.marks(producer_id, self.now_ms) if found is None else found


def _decide(marks: tuple[ProducerMark, ...], producer: Producer, crc: int) -> Append | Duplicate:
    """What to do with an append of a producer whose last appends are the given ones."""
    if not marks or producer.epoch > marks[-1].epoch:
        return Append()
    last = marks[-1]
    if producer.epoch < last.epoch:
        raise _refusal(producer, last, "stale epoch", "a later life of the producer has appended")
    if producer.sequence <= last.sequence:
        for mark in marks:
            if mark.sequence == producer.sequence:
                if mark.crc != crc:
                    reason = "other records were appended under this number"
                    raise _refusal(producer, last, "conflict", reason)
                return Duplicate({part: (start, end) for part, start, end in mark.offsets})
        return Duplicate({})
    if producer.sequence > last.sequence + 1 and not producer.gaps:
        raise _refusal(producer, last, "gap", "an append before this one is missing")
    return Append()


def _following(marks: tuple[ProducerMark, ...], mark: ProducerMark) -> tuple[ProducerMark, ...]:
    """A producer's last appends after one more; the same object when it is known already."""
    if not marks or mark.epoch != marks[-1].epoch:
        return (mark,)
    if mark.sequence > marks[-1].sequence:
        return (*marks, mark)[-MARKS_KEPT_MAX:]
    # lower and later: it was forgotten in between, and began anew
    return (mark,) if mark.time_ms > marks[-1].time_ms else marks


def _first(marks: dict[str, tuple[ProducerMark, ...]], count: int) -> Iterator[str]:
    """The ids of the producers to forget when there are so many too many."""
    for key in marks:
        if count == 0:
            return
        if not key.startswith(OWN_PREFIXES):
            count -= 1
            yield key


_HINTS = {
    "gap": "append the missing ones first, in order",
    "conflict": "send the same records again, or the next number with new ones",
    "stale epoch": "this life of the producer has been followed by another: stop it",
}


def _refusal(producer: Producer, last: ProducerMark, problem: str, reason: str) -> ProducerError:
    return ProducerError(
        f"the producer's append {producer.sequence} is refused: {reason}",
        hint=_HINTS[problem],
        problem=problem,
        producer=producer.id,
        sequence=producer.sequence,
        epoch=producer.epoch,
        last_sequence=last.sequence,
        last_epoch=last.epoch,
    )
