"""The type ``httpbroadcast``: see the class."""

from __future__ import annotations

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
from atoll.runtime.batches import chosen


class HttpBroadcastParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An httpbroadcast has no params."""


class HttpBroadcast(ActorType[HttpBroadcastParams]):
    """Emits every event unchanged: where events are sent to from outside, and fan out."""

    name = "httpbroadcast"
    params = HttpBroadcastParams
    example: ClassVar[dict[str, Any]] = {}

    def keeps(self, params: HttpBroadcastParams, field: str) -> bool:
        """Events pass unchanged."""
        return True

    def trigger(
        self, params: HttpBroadcastParams, state: State, event: Event, given: Given
    ) -> Result:
        """The event."""
        return Result(state, (event,))

    def batch(
        self, params: HttpBroadcastParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """The events."""
        return chosen(events, np.ones(events.num_rows, np.bool_))
