"""Random numbers that belong to an event, not to the order in which events are made.

A draw is a hash of (seed, event number, purpose). So any range of events can be generated alone,
in any chunks, on any machine, and is always the same. The hash is splitmix64's finisher, applied
to whole arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit of each value over all its bits; wraps around by design."""
    mixed = values >> np.uint64(30)  # one new array; the rest happens in place
    mixed ^= values
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


class Draws:
    """The draws of some events.

    Args:
        seed: Which of all streams.
        events: The events' numbers.
    """

    def __init__(self, seed: int, events: NDArray[np.int64]) -> None:
        """Mix seed and numbers once; each draw mixes in its purpose."""
        start = _mixed(np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64) + _GOLDEN)
        self._base = _mixed(events.astype(np.uint64) * _GOLDEN + start)

    def bits(self, purpose: int) -> NDArray[np.uint64]:
        """64 random bits per event; the same for the same purpose."""
        return _mixed(self._base + np.array([purpose + 1], dtype=np.uint64) * _GOLDEN)

    def unit(self, purpose: int) -> NDArray[np.float64]:
        """Evenly distributed in [0, 1)."""
        return (self.bits(purpose) >> np.uint64(11)).astype(np.float64) * _UNIT

    def below(self, purpose: int, limit: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Whole numbers evenly distributed in [0, limit); the limit may differ per event."""
        return (self.unit(purpose) * limit).astype(np.int64)
