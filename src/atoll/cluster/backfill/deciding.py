"""When what is filled joins the topology that it is filled beside. Pure.

It is filled up to the topology's last commit and never further, so it is always behind or level.
When it is behind by no more than a microbatch, it writes checkpoints, from which the topology will
build its stores. From then on the topology holds its next microbatch back after each one, for a
moment in which the rest may be filled: when that is enough they join. Each time that it was not,
the next moment is longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NEAR_RECORDS = 1_000
"""So many records are near, however small the microbatches are."""

_HOLD_SECONDS_MIN = 0.05
_HOLD_SECONDS_MAX = 10.0
_LONGER = 1.5

Move = Literal["go on", "checkpoint", "hold", "join"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far both are, between two microbatches of the topology.

    Attributes:
        behind: How many records that the topology has read are not filled yet.
        batch: How many records its last microbatch read.
        batch_seconds: How long that took.
        runs: Whether the filling goes on: it has not failed.
        written: Whether all but the newest of it lies in checkpoints; None: nobody has asked.
        holds: How often the topology held back in vain.
    """

    behind: int
    batch: int
    batch_seconds: float
    runs: bool
    written: bool | None
    holds: int = 0

    @property
    def move(self) -> Move:
        """What is to be done now."""
        if not self.runs or self.behind > max(self.batch, NEAR_RECORDS):
            return "go on"
        if self.written is None:
            return "checkpoint"
        if not self.written:
            return "go on"
        return "hold" if self.behind else "join"

    @property
    def hold_seconds(self) -> float:
        """For how long the topology holds back at most."""
        longer = min(_LONGER**self.holds, _HOLD_SECONDS_MAX / _HOLD_SECONDS_MIN)
        return min(_HOLD_SECONDS_MAX, max(_HOLD_SECONDS_MIN, self.batch_seconds) * longer)
