"""The type ``sample``: see the class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
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
from atoll.runtime.chance import uniform, uniforms


class SampleParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a sample.

    Args:
        fraction: Which share of the events passes, from 0 to 1.
    """

    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)]


def passes(fraction: float, drawn: float) -> bool:
    """Whether an event passes whose number, uniform from 0 to 1, is this one."""
    return drawn < fraction


class Sample(ActorType[SampleParams]):
    """Emits a share of the events, unchanged, by chance.

    Whether an event passes follows from its identity alone: a microbatch that is tried again
    lets the same events pass.
    """

    name = "sample"
    params = SampleParams
    example: ClassVar[dict[str, Any]] = {"fraction": 0.25}

    def keeps(self, params: SampleParams, field: str) -> bool:
        """Events pass unchanged."""
        return True

    def trigger(self, params: SampleParams, state: State, event: Event, given: Given) -> Result:
        """The event, or nothing."""
        drawn = uniform(given.identity, given.number)
        return Result(state, (event,) if passes(params.fraction, drawn) else ())

    def batch(
        self, params: SampleParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """All numbers at once."""
        return chosen(events, uniforms(given.identity, given.numbers) < params.fraction)
