"""The type ``minmax``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
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
from atoll.runtime.batches import chosen, column_of, numbers_in, with_column
from atoll.runtime.events import FieldName, number_of
from atoll.runtime.problems import Problem


class MinMaxParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a minmax.

    Args:
        field: The field with the number.
        min: The least that it may be.
        max: The most that it may be; above ``min``.
    """

    field: FieldName
    min: float
    max: float


class MinMax(ActorType[MinMaxParams]):
    """Emits every event, with its number brought within bounds and made a number with decimals.

    An event without a number there is emitted as it is. Only the field of the event itself is
    changed, not fields of the same name within it.
    """

    name = "minmax"
    params = MinMaxParams
    example: ClassVar[dict[str, Any]] = {"field": "speed", "min": 50, "max": 100}

    def check(self, params: MinMaxParams) -> Iterator[Problem]:
        """There is something between the bounds."""
        if params.min >= params.max:
            what = f"min is {params.min:g}, max is {params.max:g}"
            yield Problem("invalid-actor", "/min", what, "give a min below the max")

    def keeps(self, params: MinMaxParams, field: str) -> bool:
        """All but the number."""
        return field != params.field

    def trigger(self, params: MinMaxParams, state: State, event: Event, given: Given) -> Result:
        """The event within bounds."""
        value = number_of(event.get(params.field))
        if value is None:
            return Result(state, (event,))
        within = float(min(max(value, params.min), params.max))
        return Result(state, ({**event, params.field: within},))

    def batch(
        self, params: MinMaxParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """One new column; a column with infinite numbers, or nulls, is left to ``trigger``."""
        column = column_of(events, params.field)
        found = numbers_in(column)
        everything = np.ones(events.num_rows, np.bool_)
        if found is None:
            return chosen(events, everything)
        numbers, valid = found
        if not valid.all():
            return None
        # Bounds are floats, so the nearest float of a whole number lies on the same side of them.
        within = numbers.astype(np.float64)
        within = np.where(params.min > within, params.min, within)
        within = np.where(params.max < within, params.max, within)
        return chosen(with_column(events, params.field, pa.array(within)), everything)
