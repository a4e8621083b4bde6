"""Grouping: any type of runtime actor, once per value of a field of its events.

``"group": {"by": "customer"}`` makes of an actor one per customer, each with a state of its own
that begins with the first event. An event whose field names nothing (see ``text_of``) goes to none
and emits nothing. The groups' states lie side by side in one state here; whoever stores them apart
asks ``inner`` for the state of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from atoll.runtime.actors.interface import ActorType, Effect, Event, Given, Result, State
from atoll.runtime.events import text_of

_AS_INNER = (
    *("name", "params", "stateful", "effect", "fields", "modes", "mergeable", "aliases"),
    *("emits", "runs"),
)


class Grouped(ActorType[Any]):
    """A type by a field. The state is ``{group: state of the type}``.

    Args:
        inner: The type.
        by: The field.
    """

    def __init__(self, inner: ActorType[Any], by: str) -> None:
        """Everything but the state is the inner type's."""
        self.inner = inner
        self.by = by
        for each in _AS_INNER:
            setattr(self, each, getattr(inner, each))

    def group_of(self, event: Event) -> str | None:
        """Which group an event belongs to."""
        return text_of(event.get(self.by))

    def initial(self, params: Any) -> State:
        """No group yet; a stateless type keeps nothing here either."""
        return {} if self.stateful else None

    def started(self, params: Any, state: State, given: Given) -> State:
        """Every group starts."""
        if not self.stateful:
            return state
        return {
            group: self.inner.started(params, each, _within(given, group))
            for group, each in state.items()
        }

    def trigger(self, params: Any, state: State, event: Event, given: Given) -> Result:
        """The event's group takes it."""
        group = self.group_of(event)
        if group is None:
            return Result(state)
        if not self.stateful:
            return self.inner.trigger(params, state, event, given)
        before = state[group] if group in state else self.inner.initial(params)
        result = self.inner.trigger(params, before, event, _within(given, group))
        return _put(state, group, result)

    def keeps(self, params: Any, field: str) -> bool:
        """As the type."""
        return self.inner.keeps(params, field)

    def due(self, params: Any, state: State) -> int | None:
        """When the first group is due."""
        times = (self.inner.due(params, each) for each in (state or {}).values())
        return min((time for time in times if time is not None), default=None)

    def tick(self, params: Any, state: State, given: Given) -> Result:
        """The first group that is due."""
        for group, each in (state or {}).items():
            time = self.inner.due(params, each)
            if time is not None and time <= given.at_ms:
                result = self.inner.tick(params, each, _within(given, group))
                return _put(state, group, result)
        return Result(state)

    def read(self, params: Any, state: State) -> dict[str, Any]:
        """What each group shows, under ``actors``."""
        groups = (state or {}).items()
        return {"actors": {group: self.inner.read(params, each) for group, each in groups}}

    def read_for(self, params: Any, state: State, event: Event) -> dict[str, Any]:
        """What the event's group shows; one that has not begun, what a new one would."""
        group = self.group_of(event)
        if group is None:
            return {}
        inner = state[group] if state and group in state else self.inner.initial(params)
        return self.inner.read(params, inner)

    def answered(self, params: Any, effect: Effect, outcome: dict[str, Any]) -> tuple[Event, ...]:
        """As the type does."""
        return self.inner.answered(params, effect, outcome)

    def snapshot(self, params: Any, events: Iterable[Event]) -> State:
        """Of each group's own events."""
        groups: dict[str, list[Event]] = {}
        for event in events:
            group = self.group_of(event)
            if group is not None:
                groups.setdefault(group, []).append(event)
        return {group: self.inner.snapshot(params, each) for group, each in groups.items()}

    def combine(self, params: Any, states: Sequence[State]) -> State:
        """Of each group's own parts."""
        parts: dict[str, list[State]] = {}
        for state in states:
            for group, each in state.items():
                parts.setdefault(group, []).append(each)
        return {group: self.inner.combine(params, each) for group, each in parts.items()}


def _put(state: State, group: str, result: Result) -> Result:
    """What the group gave, with its state among the others'."""
    if result.failure is not None:
        return Result(state, failure=result.failure)
    return Result({**state, group: result.state}, result.emitted, result.effects)


def _within(given: Given, group: str) -> Given:
    """The same, for one of several groups that may be due at once."""
    return msgspec.structs.replace(given, identity=f"{given.identity}/{group}")
