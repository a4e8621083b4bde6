"""The type ``window``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.problems import Problem

EVENTS_MAX = 10_000
_MS_MAX = 7 * 86_400_000


class WindowParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a window.

    Args:
        method: ``count``: so many events; ``time``: those of so much time.
        number: How many events, at most 10,000, or how many milliseconds, at most a week.
        sliding: After how many more events or milliseconds the next window ends; ``number``
            unless given, and at most that.
    """

    method: Literal["count", "time"]
    number: Annotated[int, msgspec.Meta(ge=1, le=_MS_MAX)]
    sliding: Annotated[int, msgspec.Meta(ge=1, le=_MS_MAX)] | None = None

    @property
    def slide(self) -> int:
        """After how many more the next one ends."""
        return self.sliding or self.number


class Window(ActorType[WindowParams]):
    """Gathers events and emits them together, as `{"data": [event, ...]}`, oldest first.

    By count, a window ends with its last event, and without sliding the next begins empty. By time,
    windows end every ``sliding`` milliseconds after the start of the runtime (of a group: after its
    first event): with the events
    before the end, back to ``number`` milliseconds, if there are any and at least ``number``
    milliseconds have passed. A window of time holds 10,000 events; more are failures.
    """

    name = "window"
    params = WindowParams
    stateful = True
    fields = ("method", "number", "sliding")
    modes = frozenset({"calc-local"})
    example: ClassVar[dict[str, Any]] = {"method": "count", "number": 100, "sliding": 10}

    def check(self, params: WindowParams) -> Iterator[Problem]:
        """The window is not too large, and slides by no more than its size."""
        if params.method == "count" and params.number > EVENTS_MAX:
            what = f"a window of {params.number} events is too large"
            yield Problem("invalid-actor", "/number", what, f"use at most {EVENTS_MAX}")
        if params.slide > params.number:
            what = f"sliding by {params.slide} leaves out what lies between the windows"
            yield Problem("invalid-actor", "/sliding", what, f"use at most {params.number}")

    def initial(self, params: WindowParams) -> State:
        """Empty."""
        return {"since": None, "due": None, "events": []}

    def started(self, params: WindowParams, state: State, given: Given) -> State:
        """Windows of time are counted from the first start."""
        return state if state["since"] is not None else {**state, "since": given.at_ms}

    def trigger(self, params: WindowParams, state: State, event: Event, given: Given) -> Result:
        """One event more, and perhaps a window."""
        if params.method == "count":
            return _counted(params, state, event)
        if len(state["events"]) >= EVENTS_MAX:
            return Result(state, failure=f"the window holds {EVENTS_MAX} events")
        state = self.started(params, state, given)
        due = state["due"]
        if due is None:
            due = _end_after(params, state["since"], given.at_ms)
        events = [*state["events"], [given.at_ms, event]]
        return Result({**state, "due": due, "events": events})

    def due(self, params: WindowParams, state: State) -> int | None:
        """When the window ends, while it holds anything."""
        due: int | None = state["due"]
        return due

    def tick(self, params: WindowParams, state: State, given: Given) -> Result:
        """The window that has ended, by its own end however late it is asked for."""
        end = state["due"]
        if end is None or end > given.at_ms:
            return Result(state)
        data = [event for at, event in state["events"] if end - params.number <= at < end]
        full = end - state["since"] >= params.number
        next_start = end + params.slide - params.number
        kept = [pair for pair in state["events"] if pair[0] >= max(next_start, 0)]
        if not full:
            kept = state["events"]
        after = {**state, "events": kept, "due": end + params.slide if kept else None}
        return Result(after, ({"data": data},) if data and full else ())

    def read(self, params: WindowParams, state: State) -> dict[str, Any]:
        """Its shape."""
        return {"method": params.method, "number": params.number, "sliding": params.slide}


def _counted(params: WindowParams, state: State, event: Event) -> Result:
    events = [*state["events"], event]
    if len(events) < params.number:
        return Result({**state, "events": events})
    return Result({**state, "events": events[params.slide :]}, ({"data": events},))


def _end_after(params: WindowParams, since: int, at_ms: int) -> int:
    """The first end of a window after this time."""
    passed = max(at_ms - since, 0) // params.slide
    return since + (passed + 1) * params.slide
