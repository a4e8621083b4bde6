"""The load-based policy: more units when a topology cannot keep up, fewer when it idles.

Off unless asked for. It is a pure state machine: :func:`decide` takes what it knew and one sample,
and answers what it knows now and the number of units to go to, if any. The rules and their reasons:

* *Too much* is a high busy ratio, or a lag that takes long to work off. Both, because a topology
  that is always busy but level has no room for the next burst, and one with a backlog has already
  lost. The lag counts in seconds of work: a million records are nothing at a million a second.
* *Too little* is a low busy ratio without lag. Between the two bounds of each measure nothing
  happens (hysteresis), so that a small change of the load is no reason to move state.
* A topology that processes nothing in spite of its lag stands still for another reason. Its lag
  tells nothing; only a high busy ratio makes it grow.
* Only several samples in a row count: one slow microbatch is no trend.
* Growth multiplies, because a saturated topology does not tell how much it lacks, and every step
  costs a pause. Shrinking goes one step at a time: what is missing hurts, what is spare does not.
* A step down is taken only when the same work on the fewer units would not be too much. So a
  steady load never makes it go up, down and up again: it goes up while there is a backlog, down
  until the units are used, and stays.
* After each change of the units, whoever made it, samples are left out for a while: caches are
  cold, and the backlog of the pause looks like load. The first sample is such a change as well.
* The bounds are a person's wish: a number of units outside them is led back without a trend.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Literal

import msgspec

from atoll.errors import UsageError

_Verdict = Literal["high", "normal", "low"]


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When to grow and when to shrink.

    Attributes:
        busy_high: Above this busy ratio it is too much.
        busy_low: Below this busy ratio it is too little.
        lag_high_seconds: Above this lag it is too much.
        lag_low_seconds: Up to this lag there is none to speak of: records are always on their way.
        samples: How many samples in a row must say the same.
        cool_down_seconds: How long samples are left out after a change.
        least: The fewest units.
        most: The most units; None: as many as there are.
        growth: What the number of units is multiplied by to grow, rounded up.
        shrink_step: How many units fewer at a time.

    Raises:
        UsageError: When they contradict each other or make no sense.
    """

    busy_high: float = 0.8
    busy_low: float = 0.3
    lag_high_seconds: float = 5.0
    lag_low_seconds: float = 1.0
    samples: int = 3
    cool_down_seconds: float = 60.0
    least: int = 1
    most: int | None = None
    growth: float = 2.0
    shrink_step: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        rules = {
            "busy_low is above 0, busy_high above it, and at most 1": (
                0 < self.busy_low < self.busy_high <= 1
            ),
            "lag_low_seconds is at least 0, and lag_high_seconds above it": (
                0 <= self.lag_low_seconds < self.lag_high_seconds
            ),
            "samples is at least 1": self.samples >= 1,
            "cool_down_seconds is at least 0": self.cool_down_seconds >= 0,
            "least is at least 1, and most not below it": (
                1 <= self.least <= (inf if self.most is None else self.most)
            ),
            "growth is a number above 1": 1 < self.growth < inf,
            "shrink_step is at least 1": self.shrink_step >= 1,
        }
        for rule, holds in rules.items():
            if not holds:
                raise UsageError("the options of the load policy cannot be", hint=rule)


class Sample(msgspec.Struct, frozen=True):
    """What a topology did since the sample before.

    Attributes:
        at_seconds: When it was taken, on a clock that never goes back.
        busy_ratio: Which part of that time its units worked, from 0 to 1.
        lag_records: How many records wait in its depots.
        processed_per_second: How many records it processed per second of that time.
    """

    at_seconds: float
    busy_ratio: float
    lag_records: int
    processed_per_second: float


class LoadState(msgspec.Struct, frozen=True):
    """What is remembered from one sample to the next; a fresh one knows nothing yet.

    Attributes:
        units: How many units the topology had at the last sample.
        changed_at_seconds: When their number changed, or was decided to.
        verdict: What the last sample said.
        repeats: How many samples in a row said so.
    """

    units: int | None = None
    changed_at_seconds: float = 0.0
    verdict: _Verdict = "normal"
    repeats: int = 0


def decide(
    state: LoadState, sample: Sample, current: int, available: int, options: LoadOptions
) -> tuple[LoadState, int | None]:
    """What to remember, and how many units to go to; None: stay.

    A decision that is not carried out is taken again after the cool-down.

    Args:
        state: What the sample before left.
        sample: The newest.
        current: How many units the topology has.
        available: How many it may have.
        options: When to grow and when to shrink.
    """
    if current != state.units:
        return LoadState(current, sample.at_seconds), None
    if sample.at_seconds - state.changed_at_seconds < options.cool_down_seconds or available < 1:
        return state, None
    verdict = _verdict(sample, options)
    repeats = state.repeats + 1 if verdict == state.verdict else 1
    trend = verdict if repeats >= options.samples else "normal"
    wanted = _wanted(trend, sample.busy_ratio, current, available, options)
    if wanted == current:
        return LoadState(current, state.changed_at_seconds, verdict, repeats), None
    return LoadState(current, sample.at_seconds), wanted


def _verdict(sample: Sample, options: LoadOptions) -> _Verdict:
    lag_seconds = _lag_seconds(sample)
    if sample.busy_ratio > options.busy_high:
        return "high"
    if lag_seconds is None:
        return "normal"
    if lag_seconds > options.lag_high_seconds:
        return "high"
    if sample.busy_ratio < options.busy_low and lag_seconds <= options.lag_low_seconds:
        return "low"
    return "normal"


def _lag_seconds(sample: Sample) -> float | None:
    """How long the waiting records take; None when there are some and nothing processes them."""
    if sample.lag_records == 0:
        return 0.0
    if sample.processed_per_second > 0:
        return sample.lag_records / sample.processed_per_second
    return None


def _wanted(
    trend: _Verdict, busy_ratio: float, current: int, available: int, options: LoadOptions
) -> int:
    """The number of units that a trend asks for, within the bounds."""
    most = available if options.most is None else min(available, options.most)
    least = min(options.least, most)

    def bounded(units: int) -> int:
        return max(least, min(units, most))

    match trend:
        case "high":
            return bounded(ceil(current * options.growth))
        case "low":
            fewer = bounded(current - options.shrink_step)
            fits = busy_ratio * current / fewer <= options.busy_high
            return fewer if fits else bounded(current)
    return bounded(current)
