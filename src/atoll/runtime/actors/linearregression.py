"""The type ``linearregression``: see the class."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.runtime.actors.interface import (
    ActorType,
    BatchGiven,
    BatchResult,
    Event,
    Given,
    Result,
    State,
)
from atoll.runtime.batches import chosen, column_of, numbers_in, with_column
from atoll.runtime.events import FieldName, number_of

_TOO_LARGE = "the score is no finite number"


class RegressionParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a linear regression.

    Args:
        intercept: What every score begins with.
        weights: Per field what its number is multiplied by.
        outcome: The field that the score is put into.
    """

    intercept: float
    weights: Annotated[dict[str, float], msgspec.Meta(min_length=1, max_length=10_000)]
    outcome: FieldName = "score"


class LinearRegression(ActorType[RegressionParams]):
    """Emits every event with a score: the intercept, and each weight times its field's number.

    An event without a number in one of the fields is a failure. One that has the outcome already
    keeps its own.
    """

    name = "linearregression"
    params = RegressionParams
    example: ClassVar[dict[str, Any]] = {
        "intercept": 3.972,
        "weights": {"amount": 0.47353, "age": 1.86766, "hour": 4.52352},
        "outcome": "score",
    }

    def keeps(self, params: RegressionParams, field: str) -> bool:
        """All but the score."""
        return field != params.outcome

    def trigger(self, params: RegressionParams, state: State, event: Event, given: Given) -> Result:
        """The event with its score."""
        score = params.intercept
        for name, weight in params.weights.items():
            value = number_of(event.get(name))
            if value is None:
                return Result(state, failure=_missing(name))
            try:
                score += weight * float(value)
            except OverflowError:
                return Result(state, failure=_TOO_LARGE)
        if event.get(params.outcome) is not None:
            return Result(state, (event,))
        if not math.isfinite(score):
            return Result(state, failure=_TOO_LARGE)
        return Result(state, ({**event, params.outcome: score},))

    def batch(
        self, params: RegressionParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """One multiplication per weight; where some events have an outcome it is ``trigger``'s."""
        if column_of(events, params.outcome) is not None:
            return None
        scores = np.full(events.num_rows, params.intercept)
        valid = np.ones(events.num_rows, np.bool_)
        failures: dict[str, NDArray[np.int64]] = {}
        with np.errstate(over="ignore", invalid="ignore"):
            for name, weight in params.weights.items():
                found = numbers_in(column_of(events, name))
                there = found[1] if found else np.zeros_like(valid)
                failures[_missing(name)] = np.flatnonzero(valid & ~there)
                valid &= there
                if found:
                    scores += weight * found[0].astype(np.float64)
        finite = np.isfinite(scores)
        failures[_TOO_LARGE] = np.flatnonzero(valid & ~finite)
        scored = with_column(events, params.outcome, pa.array(scores))
        return chosen(scored, valid & finite, failures)


def _missing(name: str) -> str:
    return f"field {name!r} is missing or no number"
