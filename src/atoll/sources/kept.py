"""What is kept of a source: beside its depot, as numbered objects.

Before an append its *plan* is made: a numbered object that says what the append takes, and after
which append. The append bears the plan's number as that of its producer. So whether a plan took
effect is asked of the depot alone, which stores records and number in one frame: the last number
that it holds leads, from plan to plan, over all that was ever stored. A plan that the depot does
not hold did not take effect and never will, since whoever opens the depot fences those before;
so it may be read again, or be left.

Now and then the position is kept as a whole, and the plans before are dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass

import msgspec

from atoll.depot.producers.table import source_producer
from atoll.errors import DamageError, NotFoundError
from atoll.sources.base import Position, Reader, Reads
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

_POSITION_EVERY = 64
_PAUSES_KEPT = 100


class _Plan(msgspec.Struct, frozen=True):
    """What one append takes: ``source`` and ``at_ms`` are for people."""

    after: int
    reads: Reads
    source: str
    at_ms: int


class _Whole(msgspec.Struct, frozen=True):
    """The position when the append of its number was stored."""

    position: Position


class _Pause(msgspec.Struct, frozen=True):
    """What somebody said of a source."""

    paused: bool
    at_ms: int


@dataclass
class Stand:
    """How far a source was read.

    Attributes:
        number: The last append that the depot holds; 0 when there is none.
        position: Behind it.
        pending: The number and the content of a plan that follows it and was not stored.
    """

    number: int
    position: Position
    pending: tuple[int, Reads] | None = None


class SourceLog:
    """Plans and positions of one source of one depot.

    Args:
        store: The root.
        module: Whose depot it is.
        depot: The depot.
        source: The source's id.
    """

    def __init__(self, store: ObjectStore, module: str, depot: str, source: str) -> None:
        digest = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()
        folder = f"{module}/depots/{depot}/sources/{digest}"
        self.producer_id = source_producer(module, depot, digest)
        self._source = source
        self._plans = NumberedObjects(store, f"{folder}/plans")
        self._wholes = NumberedObjects(store, f"{folder}/positions")
        self._pauses = NumberedObjects(store, f"{folder}/pauses")
        self._since_whole = 0

    def stand(self, stored: int | None, reader: Reader) -> Stand:
        """How far it is, by the last number that the depot holds of its producer.

        Raises:
            DamageError: When a plan that took effect is not there.
        """
        number = stored or 0
        wholes = [each for each in self._wholes.numbers() if each <= number]
        base = wholes[-1] if wholes else 0
        position = self._whole(base)
        chain, at = [], number
        while at > base:
            plan = self._plan(at)
            chain.append(plan)
            at = plan.after
        if at != base:
            raise DamageError(
                "the plans of a source do not meet its kept position",
                hint="restore the root from a copy of one moment",
                file=self._plans.name(number),
            )
        for plan in reversed(chain):
            position = reader.after(position, plan.reads)
        self._since_whole = len(chain)
        newest = self._plans.latest() or 0
        pending = None
        if newest > number:
            self._plans.settle(newest)  # of a life that may have died before it was durable
            plan = self._plan(newest)
            pending = (newest, plan.reads) if plan.after == number else None
        return Stand(number, position, pending)

    def plan(self, stand: Stand, reads: Reads, now_ms: int) -> int:
        """Say what the next append takes; returns its number."""
        payload = msgspec.msgpack.encode(_Plan(stand.number, reads, self._source, now_ms))
        number = max(self._plans.latest() or 0, stand.number) + 1
        while True:
            with contextlib.suppress(ObjectExistsError):
                self._plans.create(number, payload)
                return number
            number += 1  # of a life that is fenced by now, or fences this one

    def stored(self, stand: Stand) -> None:
        """Note that the append of the stand's number is stored; now and then tidy."""
        self._since_whole += 1
        if self._since_whole < _POSITION_EVERY:
            return
        payload = msgspec.msgpack.encode(_Whole(stand.position))
        self._wholes.create_or_find(stand.number, payload)
        self._since_whole = 0
        self._wholes.delete_below(stand.number)
        self._plans.delete_below(stand.number)

    def paused(self) -> bool:
        """Whether somebody paused it."""
        number = self._pauses.latest()
        if number is None:
            return False
        return msgspec.msgpack.decode(self._pauses.read(number), type=_Pause).paused

    def pause(self, now_ms: int, *, paused: bool) -> None:
        """Keep it that it rests, or no longer."""
        payload = msgspec.msgpack.encode(_Pause(paused, now_ms))
        while True:
            number = (self._pauses.latest() or 0) + 1
            with contextlib.suppress(ObjectExistsError):
                self._pauses.create(number, payload)
                break
        self._pauses.delete_below(number - _PAUSES_KEPT)

    def _whole(self, number: int) -> Position:
        if not number:
            return {}
        return msgspec.msgpack.decode(self._wholes.read(number), type=_Whole).position

    def _plan(self, number: int) -> _Plan:
        try:
            return msgspec.msgpack.decode(self._plans.read(number), type=_Plan)
        except NotFoundError as error:
            raise DamageError(
                "a plan of a source that took effect is missing",
                hint="restore the file from a copy; without it nobody knows what was read",
                file=self._plans.name(number),
            ) from error
