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

_SHORT_MS = 100.0
"""Microbatches that fill may always take so long: less would be all overhead."""

_PART = 0.4
"""Of the time of an undisturbed microbatch of the topology what one that fills may take."""

_RECORDS_MIN = 5_000
"""Fewer from a depot partition would be all overhead too."""

_SLOWER, _FASTER = 0.25, 2.0
"""By how much the pace changes at most after one microbatch."""

_STEADY = (0.8, 1.25)
"""Between these it does not change."""

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


@dataclass(frozen=True, slots=True)
class Pace:
    """How many records a microbatch takes that fills.

    The topology waits for it where both need the same processes, so it is short beside one of the
    topology's.

    Attributes:
        records_max: The most from one depot partition; as many as the options allow at first.
    """

    records_max: int

    def after(self, most: int, taken: int, took_ms: float, calm_ms: float | None) -> Pace:
        """The pace after one.

        Args:
            most: What the options allow.
            taken: The most records that it took from one depot partition.
            took_ms: How long it took.
            calm_ms: How long one of the topology takes when nothing is in its way; None when it
                runs none.
        """
        if calm_ms is None:
            return Pace(most)
        if taken < self.records_max // 2 or took_ms <= 0.0:
            return Pace(min(most, self.records_max))
        wanted = max(_SHORT_MS, _PART * calm_ms) / took_ms
        steady = _STEADY[0] < wanted < _STEADY[1]
        change = 1.0 if steady else min(_FASTER, max(_SLOWER, wanted))
        fitting = int(self.records_max * change)
        return Pace(max(min(_RECORDS_MIN, most), min(most, fitting)))
