"""The type ``filter``: see the class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
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
from atoll.runtime.batches import chosen, column_of
from atoll.runtime.events import FieldName


class FilterRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of a filter.

    Args:
        type: How the field is compared; ``startswith`` is the only way.
        function: ``include`` lets pass what begins so, ``exclude`` what does not.
        field: The field with the text; a missing one begins with nothing.
        param: How it must begin.
    """

    type: Literal["startswith"]
    function: Literal["include", "exclude"]
    field: FieldName
    param: str

    def passes(self, event: Event) -> bool:
        """Whether this rule lets the event pass."""
        value = event.get(self.field)
        found = type(value) is str and value.startswith(self.param)
        return found == (self.function == "include")

    def passing(self, events: pa.RecordBatch) -> NDArray[np.bool_]:
        """Per row whether this rule lets the event pass."""
        column = column_of(events, self.field)
        if column is None or not pt.is_string(column.type):
            found = np.zeros(events.num_rows, np.bool_)
        else:
            begins = pc.fill_null(pc.starts_with(column, self.param), False)  # noqa: FBT003
            found = begins.to_numpy(zero_copy_only=False)
        return found if self.function == "include" else ~found


class FilterParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a filter.

    Args:
        filters: The rules; an event passes when it passes every one.
    """

    filters: Annotated[tuple[FilterRule, ...], msgspec.Meta(min_length=1, max_length=1000)]


class Filter(ActorType[FilterParams]):
    """Emits the events that pass every rule, unchanged."""

    name = "filter"
    params = FilterParams
    example: ClassVar[dict[str, Any]] = {
        "filters": [{"type": "startswith", "function": "include", "field": "url", "param": "/api"}]
    }

    def keeps(self, params: FilterParams, field: str) -> bool:
        """Events pass unchanged."""
        return True

    def trigger(self, params: FilterParams, state: State, event: Event, given: Given) -> Result:
        """The event, or nothing."""
        passes = all(rule.passes(event) for rule in params.filters)
        return Result(state, (event,) if passes else ())

    def batch(
        self, params: FilterParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """One comparison per rule for all."""
        keep = np.ones(events.num_rows, np.bool_)
        for rule in params.filters:
            keep &= rule.passing(events)
        return chosen(events, keep)
