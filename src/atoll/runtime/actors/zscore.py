"""The type ``zscore``: see the class."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.events import FieldName, number_of

_COUNT_LEAST = 20
"""Of fewer numbers, or as many, neither mean nor deviation says much."""


class ZScoreParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a zscore.

    Args:
        field: The field with the number.
        score: How many deviations above the mean an outlier lies.
    """

    field: FieldName
    score: float


class ZScore(ActorType[ZScoreParams]):
    """Emits the events whose number lies far above the mean, with `"outlier": true`.

    Mean and deviation are collected from a sibling under the aliases `count`, `avg` and `std`; of
    a [stats](#stats) they are its fields `count`, `avg` and `sd`. Nothing is an outlier until
    more than 20 numbers were counted. An event without a number there is a failure.
    """

    name = "zscore"
    params = ZScoreParams
    aliases = frozenset({"count", "avg", "std"})
    example: ClassVar[dict[str, Any]] = {"field": "amount", "score": 3}

    def keeps(self, params: ZScoreParams, field: str) -> bool:
        """All but the mark."""
        return field != "outlier"

    def trigger(self, params: ZScoreParams, state: State, event: Event, given: Given) -> Result:
        """The event with its mark, or nothing."""
        value = number_of(event.get(params.field))
        if value is None:
            return Result(state, failure=f"field {params.field!r} is missing or no number")
        collected = given.collected
        missing = sorted(self.aliases - collected.keys())
        if missing:
            return Result(state, failure=f"nothing was collected for {', '.join(missing)}")
        count, mean, deviation = (number_of(collected[a]) for a in ("count", "avg", "std"))
        if count is None or count <= _COUNT_LEAST:
            return Result(state)
        if mean is None or deviation is None:
            return Result(state, failure="what was collected is no mean and deviation")
        outlies = value > mean + params.score * deviation
        return Result(state, ({**event, "outlier": True},) if outlies else ())
