"""The type ``stats``: see the class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.events import FieldName, number_of
from atoll.runtime.moments import NUMBER_MAX, Moments


class StatsParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a stats.

    Args:
        field: The field with the number.
    """

    field: FieldName


class Stats(ActorType[StatsParams]):
    """Keeps count, mean, deviation, least and most of a number; emits nothing.

    The deviation is that of all numbers there are, not of a sample. All but the count are null
    before the first number. An event without a number there is a failure, as is one beyond 1e140.
    """

    name = "stats"
    params = StatsParams
    stateful = True
    emits = False
    resettable = True
    mergeable = True
    fields = ("count", "avg", "sd", "min", "max")
    modes = frozenset({"calc-local", "collect-local", "spark-batch", "log-batch"})
    example: ClassVar[dict[str, Any]] = {"field": "amount"}

    def initial(self, params: StatsParams) -> State:
        """Of no numbers."""
        return {"count": 0, "mean": 0.0, "squares": 0.0, "least": None, "most": None}

    def trigger(self, params: StatsParams, state: State, event: Event, given: Given) -> Result:
        """With one number more."""
        number = _number(params, event)
        if number is None:
            failure = f"field {params.field!r} is missing, no number, or beyond {NUMBER_MAX:g}"
            return Result(state, failure=failure)
        return Result(_state(_moments(state).add(number)))

    def read(self, params: StatsParams, state: State) -> dict[str, Any]:
        """What the sums mean."""
        moments = _moments(state)
        if not moments.count:
            return {"count": 0, "avg": None, "sd": None, "min": None, "max": None}
        return {
            "count": moments.count,
            "avg": moments.mean,
            "sd": moments.sd,
            "min": moments.least,
            "max": moments.most,
        }

    def snapshot(self, params: StatsParams, events: Iterable[Event]) -> State:
        """Of the numbers in the range."""
        numbers = (_number(params, event) for event in events)
        return _state(Moments.of(number for number in numbers if number is not None))

    def combine(self, params: StatsParams, states: Sequence[State]) -> State:
        """Of the numbers of all parts."""
        return _state(reduce(Moments.join, map(_moments, states)))


def _number(params: StatsParams, event: Event) -> float | None:
    value = number_of(event.get(params.field))
    return float(value) if value is not None and abs(value) <= NUMBER_MAX else None


def _moments(state: State) -> Moments:
    if not state["count"]:
        return Moments()
    return Moments(state["count"], state["mean"], state["squares"], state["least"], state["most"])


def _state(moments: Moments) -> State:
    return {
        "count": moments.count,
        "mean": moments.mean,
        "squares": moments.squares,
        "least": moments.least if moments.count else None,
        "most": moments.most if moments.count else None,
    }
