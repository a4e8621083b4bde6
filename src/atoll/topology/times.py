"""What time it is in a microbatch: fixed by its plan, so the same in every attempt.

There are two kinds of time. *Processing time* is the clock's when the microbatch was planned; it
never goes back from one microbatch to the next. *Event time* is what the rows say: its progress
is a *watermark*, the highest event time of all rows so far less a delay. The rows of a microbatch
move the watermark of the next one, never of their own.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Clock = tuple[str, ...]
"""The watermarks by which a step goes: the lowest of them counts. None: processing time."""

PROCESSING: Clock = ()

NEVER = (1 << 63) - 1
"""Later than any time: nothing is due."""


@dataclass(frozen=True, slots=True)
class Times:
    """The time of one microbatch, in milliseconds since 1970.

    Attributes:
        now_ms: Processing time.
        watermarks: By name; a watermark that no row has moved yet is missing.
        before: The watermarks of the microbatch before.
        microbatch_id: Which microbatch it is.
    """

    now_ms: int = 0
    watermarks: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    microbatch_id: int = 0

    def of(self, clock: Clock) -> int | None:
        """What a clock shows; None while a watermark of it is missing."""
        return self.now_ms if clock == PROCESSING else _lowest(self.watermarks, clock)

    def event_before(self, clock: Clock) -> int | None:
        """What a clock of watermarks showed in the microbatch before."""
        return _lowest(self.before, clock)


def _lowest(watermarks: Mapping[str, int], clock: Clock) -> int | None:
    shown = [watermarks.get(name) for name in clock]
    known = [each for each in shown if each is not None]
    return min(known) if known and len(known) == len(shown) else None
