"""The type ``threshold``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State
from atoll.runtime.events import number_of
from atoll.runtime.problems import Problem

__all__ = ["Threshold"]


class ThresholdParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a threshold.

    Args:
        key: The field with the number.
        threshold: The least number that passes.
    """

    key: str
    threshold: float


class Threshold(ActorType[ThresholdParams]):
    """Emits the events whose number reaches a threshold, unchanged.

    An event without the field, or with something else than a number in it, is a failure.
    """

    name = "threshold"
    params = ThresholdParams
    example: ClassVar[dict[str, Any]] = {"key": "amount", "threshold": 1000}

    def check(self, params: ThresholdParams) -> Iterator[Problem]:
        """The field has a name."""
        if not params.key:
            yield Problem("invalid-actor", "/key", "the field has no name", "name a field")

    def trigger(self, params: ThresholdParams, state: State, event: Event, given: Given) -> Result:
        """The event, or nothing."""
        value = number_of(event.get(params.key))
        if value is None:
            return Result(state, failure=f"field {params.key!r} is missing or no number")
        return Result(state, (event,) if value >= params.threshold else ())
