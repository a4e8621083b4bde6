"""Timers of keys: kept by vnode in a private PState, by time and key, so the next is the first.

What is due was fixed by the plan: the time of the microbatch, and the vnodes in which something
is due. Timers run before the rows of the microbatch, in the order of time and key. One that is
set for a time that has come already runs in the next microbatch, which needs no records.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.codec.keys.elements import decode_element, encode_element
from atoll.codec.scalars import INT64_MAX, INT64_MIN
from atoll.errors import StateError
from atoll.pstate.handles.driven import Driven
from atoll.pstate.handles.writes import EntryWriter, Writes
from atoll.schema import Scalar
from atoll.topology.rows import Row, row_type
from atoll.topology.times import NEVER

if TYPE_CHECKING:
    from atoll.pstate.spec import PStateSpec

_TIME = Scalar("int")
_TIMER = row_type(("time_ms", "key", "payload"))


@dataclass
class Firing:
    """What a microbatch's plan says of a step's timers, and what the step says of them after it.

    Attributes:
        now_ms: What the clock of the timers shows; None when it shows nothing yet.
        due: The vnodes in which timers are due.
        agenda: For each vnode that the step has looked at, when its next timer is due.
    """

    now_ms: int | None
    due: set[int]
    agenda: dict[int, int] = field(default_factory=dict)


class Timers(Driven):
    """The timers of the key whose row, or whose timer, a function was called with."""

    def __init__(
        self, spec: PStateSpec, writer: EntryWriter, vnode: int, now_ms: int | None
    ) -> None:
        """Made for one vnode; the key is set before each call."""
        super().__init__(Writes(spec, writer, vnode))
        self.now_ms = now_ms
        """What the clock shows, in milliseconds: in processing time that of the plan, in event
        time the watermark, None while there is none."""
        self._codec = spec.codec()
        self._kind = spec.node.value.key  # type: ignore[union-attr]  # a map by time and key
        self._key: Any = None

    def at(self, time: int | dt.datetime, payload: Any = None) -> None:
        """Call ``on_timer`` for this key when the clock shows that time or a later one.

        A key has one timer per millisecond: one that it has already at that time is replaced.

        Args:
            time: Milliseconds since 1970, or an instant with a time zone.
            payload: What ``on_timer`` gets as ``timer.payload``: None, text, bytes, numbers, and
                lists and dicts of these.

        Raises:
            StateError: When the time or the payload cannot be.
        """
        try:
            data = msgspec.msgpack.encode(payload)
        except (TypeError, OverflowError) as error:
            raise StateError(
                f"a timer cannot keep {payload!r}: {error}",
                hint="give text, bytes, numbers, or lists and dicts of these",
            ) from error
        self._writes.unflushed[self._place(time)] = self._codec.encode(data)

    def cancel(self, time: int | dt.datetime) -> bool:
        """Take back this key's timer of that time; whether there was one."""
        place = self._place(time)
        if self._writes.get(place) is None:
            return False
        self._writes.unflushed[place] = None
        return True

    # For the step ---------------------------------------------------------------------------------

    def belong_to(self, key: Any) -> None:
        """Set the key."""
        self._key = key

    def due(self) -> Iterator[tuple[bytes, Row]]:
        """Take out the timers that are due, in the order of time and key."""
        if self.now_ms is None:
            return
        end = encode_element(self.now_ms + 1, _TIME)
        for place, data in list(self._writes.scan(None, end)):
            time_ms, after = decode_element(place, 0)
            timer = _TIMER()
            timer.time_ms = time_ms  # type: ignore[attr-defined]  # the type is made of columns
            timer.key = decode_element(place, after)[0]  # type: ignore[attr-defined]
            payload = msgspec.msgpack.decode(self._codec.decode(data))
            timer.payload = payload  # type: ignore[attr-defined]
            self._writes.unflushed[place] = None
            yield place, timer

    def next_ms(self) -> int:
        """When the next timer of the vnode is due."""
        for place, _ in self._writes.scan(None, None):
            time_ms: int = decode_element(place, 0)[0]
            return time_ms
        return NEVER

    def end_call(self) -> None:
        """Nothing to write: payloads are copied when they are set."""

    def _place(self, time: int | dt.datetime) -> bytes:
        millis = time
        if isinstance(time, dt.datetime) and time.tzinfo is not None:
            epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
            millis = -((epoch - time) // dt.timedelta(milliseconds=1))  # never too early
        if type(millis) is not int or not INT64_MIN < millis < INT64_MAX:
            raise StateError(
                f"a timer cannot be set for {time!r}",
                hint="give milliseconds since 1970, or a datetime with a time zone",
            )
        return encode_element(millis, _TIME) + encode_element(self._key, self._kind)
