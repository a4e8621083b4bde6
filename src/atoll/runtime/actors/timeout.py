"""Timeouts: a type whose state goes back to the initial one after a time.

Coral's first line had this for its statistics. The time begins with the first event after the start
or after a reset, so an actor that takes no events is not woken for nothing.
"""

from __future__ import annotations

from typing import Any, Literal

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State


class Resetting(ActorType[Any]):
    """A type with a timeout. The state is ``{"due": ms or None, "resets": n, "state": ...}``.

    Args:
        inner: The type.
        duration_ms: How long the state is kept.
        mode: ``continue``: again and again; ``exit``: once, and never after that.
    """

    def __init__(
        self, inner: ActorType[Any], duration_ms: int, mode: Literal["continue", "exit"]
    ) -> None:
        """Everything but the timer is the inner type's; snapshots it has none."""
        self.inner = inner
        self._duration_ms = duration_ms
        self._mode = mode
        for each in ("name", "params", "stateful", "effect", "fields", "aliases", "emits"):
            setattr(self, each, getattr(inner, each))
        vars(self).update(modes=frozenset({"calc-local"}))

    def initial(self, params: Any) -> State:
        """No event has come."""
        return {"due": None, "resets": 0, "state": self.inner.initial(params)}

    def trigger(self, params: Any, state: State, event: Event, given: Given) -> Result:
        """As the type; the first event begins the time."""
        result = self.inner.trigger(params, state["state"], event, given)
        if result.failure is not None:
            return Result(state, failure=result.failure)
        due = state["due"]
        if due is None and not (self._mode == "exit" and state["resets"]):
            due = given.at_ms + self._duration_ms
        after = {"due": due, "resets": state["resets"], "state": result.state}
        return Result(after, result.emitted, result.effects)

    def keeps(self, params: Any, field: str) -> bool:
        """As the type."""
        return self.inner.keeps(params, field)

    def due(self, params: Any, state: State) -> int | None:
        """When the state goes back."""
        due: int | None = state["due"]
        return due

    def tick(self, params: Any, state: State, given: Given) -> Result:
        """The initial state again, once it is time."""
        if state["due"] is None or state["due"] > given.at_ms:
            return Result(state)
        return Result({**self.initial(params), "resets": state["resets"] + 1})

    def read(self, params: Any, state: State) -> dict[str, Any]:
        """As the type."""
        return self.inner.read(params, state["state"])
