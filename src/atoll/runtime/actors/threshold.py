"""The type ``threshold``: see the class."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from atoll.runtime.actors.interface import (
    ActorType,
    BatchGiven,
    BatchResult,
    Event,
    Given,
    Result,
    State,
)
from atoll.runtime.batches import chosen, column_of, numbers_in
from atoll.runtime.events import FieldName, number_of


class ThresholdParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a threshold.

    Args:
        key: The field with the number.
        threshold: The least number that passes.
    """

    key: FieldName
    threshold: float


class Threshold(ActorType[ThresholdParams]):
    """Emits the events whose number reaches a threshold, unchanged.

    An event without the field, or with something else than a number in it, is a failure.
    """

    name = "threshold"
    params = ThresholdParams
    example: ClassVar[dict[str, Any]] = {"key": "amount", "threshold": 1000}

    def keeps(self, params: ThresholdParams, field: str) -> bool:
        """Events pass unchanged."""
        return True

    def trigger(self, params: ThresholdParams, state: State, event: Event, given: Given) -> Result:
        """The event, or nothing."""
        value = number_of(event.get(params.key))
        if value is None:
            return Result(state, failure=_failure(params))
        return Result(state, (event,) if value >= params.threshold else ())

    def batch(
        self, params: ThresholdParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """One comparison for all."""
        found = numbers_in(column_of(events, params.key))
        if found is None:
            nothing = np.zeros(events.num_rows, np.bool_)
            return chosen(events, nothing, {_failure(params): np.arange(events.num_rows)})
        numbers, valid = found
        # Whole numbers are compared with a whole one: as floats, large ones would be others.
        least = _least(params.threshold, numbers.dtype)
        keep = valid & (numbers >= least) if least is not None else np.zeros_like(valid)
        return chosen(events, keep, {_failure(params): np.flatnonzero(~valid)})


def _least(threshold: float, dtype: np.dtype[Any]) -> Any:
    """The least number of this kind that reaches the threshold, or None when none does."""
    if dtype.kind == "f":
        return threshold
    bounds = np.iinfo(dtype)
    least = max(math.ceil(threshold), int(bounds.min))
    return None if least > bounds.max else dtype.type(least)


def _failure(params: ThresholdParams) -> str:
    return f"field {params.key!r} is missing or no number"
