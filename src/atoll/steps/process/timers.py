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
_TIMER = row_type(("time_ms", "key", "payload", "name"))
_NAMED = 1
"""Marks timers of one millisecond of which some have names, where else one payload lies."""


@dataclass
class Firing:
    """What a microbatch's plan says of a step's timers, and what the step says of them after it.

    Attributes:
        now_ms: What the clock of the timers shows; None when it shows nothing yet.
        due: The vnodes in which timers are due.
        microbatch_id: Which microbatch it is.
        agenda: For each vnode that the step has looked at, when its next timer is due.
    """

    now_ms: int | None
    due: set[int]
    microbatch_id: int
    agenda: dict[int, int] = field(default_factory=dict)


class Timers(Driven):
    """The timers of the key whose row, or whose timer, a function was called with."""

    def __init__(self, spec: PStateSpec, writer: EntryWriter, vnode: int, firing: Firing) -> None:
        """Made for one vnode; the key is set before each call."""
        super().__init__(Writes(spec, writer, vnode))
        self.microbatch_id = firing.microbatch_id
        """The id of the microbatch, the same in every attempt at it."""
        self.now_ms = firing.now_ms
        """What the clock shows, in milliseconds: in processing time that of the plan, in event
        time the watermark, None while there is none."""
        self._codec = spec.codec()
        self._kind = spec.node.value.key  # type: ignore[union-attr]  # a map by time and key
        self._key: Any = None

    def at(self, time: int | dt.datetime, payload: Any = None, *, name: str | None = None) -> None:
        """Call ``on_timer`` for this key when the clock shows that time or a later one.

        A key has one timer of each name, and one without, per millisecond: the one that it has
        already at that time is replaced.

        Args:
            time: Milliseconds since 1970, or an instant with a time zone.
            payload: What ``on_timer`` gets as ``timer.payload``: None, text, bytes, numbers, and
                lists and dicts of these.
            name: Tells it from others of the key at that time; ``timer.name`` of ``on_timer``.

        Raises:
            StateError: When the time, the payload or the name cannot be.
        """
        if name is not None and (not isinstance(name, str) or not name):
            raise StateError(f"{name!r} cannot name a timer", hint="give a text, or leave it out")
        place = self._place(time)
        try:
            data = _encoded({**self._held(place), name: payload})
        except (TypeError, OverflowError) as error:
            raise StateError(
                f"a timer cannot keep {payload!r}: {error}",
                hint="give text, bytes, numbers, or lists and dicts of these",
            ) from error
        self._writes.unflushed[place] = self._codec.encode(data)

    def cancel(self, time: int | dt.datetime, *, name: str | None = None) -> bool:
        """Take back this key's timer of that time and name; whether there was one."""
        place = self._place(time)
        held = self._held(place)
        if name not in held:
            return False
        del held[name]
        left = self._codec.encode(_encoded(held)) if held else None
        self._writes.unflushed[place] = left
        return True

    # For the step ---------------------------------------------------------------------------------

    def belong_to(self, key: Any) -> None:
        """Set the key."""
        self._key = key

    def due(self) -> Iterator[tuple[bytes, Row]]:
        """Take out the timers that are due, in the order of time, key and name."""
        if self.now_ms is None:
            return
        end = encode_element(self.now_ms + 1, _TIME)
        for place, data in list(self._writes.scan(None, end)):
            time_ms, after = decode_element(place, 0)
            self._writes.unflushed[place] = None
            for name, payload in self._decoded(data).items():
                timer = _TIMER()
                timer.time_ms = time_ms  # type: ignore[attr-defined]  # the type is made of columns
                timer.key = decode_element(place, after)[0]  # type: ignore[attr-defined]
                timer.payload = payload  # type: ignore[attr-defined]
                timer.name = name  # type: ignore[attr-defined]
                yield place, timer

    def next_ms(self) -> int:
        """When the next timer of the vnode is due."""
        for place, _ in self._writes.scan(None, None):
            time_ms: int = decode_element(place, 0)[0]
            return time_ms
        return NEVER

    def end_call(self) -> None:
        """Nothing to write: payloads are copied when they are set."""

    def _held(self, place: bytes) -> dict[str | None, Any]:
        """The payloads of the key's timers at a time, by name."""
        data = self._writes.get(place)
        return {} if data is None else self._decoded(data)

    def _decoded(self, data: bytes) -> dict[str | None, Any]:
        payload = msgspec.msgpack.decode(self._codec.decode(data))
        if isinstance(payload, msgspec.msgpack.Ext) and payload.code == _NAMED:
            named: list[tuple[str | None, Any]] = msgspec.msgpack.decode(payload.data)
            return dict(named)
        return {None: payload}

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


def _encoded(held: dict[str | None, Any]) -> bytes:
    """The payloads of timers at one time: of one without a name as it is; names in order."""
    if held.keys() == {None}:
        return msgspec.msgpack.encode(held[None])
    ordered = sorted(held.items(), key=lambda each: (each[0] is not None, each[0] or ""))
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(_NAMED, msgspec.msgpack.encode(ordered)))
