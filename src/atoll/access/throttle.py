"""Failed tries are counted, and too many of them are not looked at any more for a while.

A key is an address together with what was tried, so that one program with an old token keeps out
nobody else who calls from the same address.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable

__all__ = ["Throttle"]

_KEYS_MAX = 10_000


class Throttle:
    """Counts failures by key, over a window of time.

    Args:
        clock: Seconds; any that only goes forward.
        failures_max: After so many failures within the window nothing is looked at.
        window_seconds: The window.
    """

    def __init__(
        self, clock: Callable[[], float], failures_max: int = 10, window_seconds: float = 60.0
    ) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._window = window_seconds
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def wait_seconds(self, key: tuple[str, str]) -> int:
        """How long to wait before the next try; 0 when there is no need to."""
        times = self._recent(key)
        if times is None or len(times) < self._failures_max:
            return 0
        return max(1, math.ceil(times[0] + self._window - self._clock()))

    def failed(self, key: tuple[str, str]) -> None:
        """Note a failure."""
        times = self._recent(key)
        if times is None:
            times = self._failures[key] = deque(maxlen=self._failures_max)
        times.append(self._clock())
        self._failures.move_to_end(key)
        while len(self._failures) > _KEYS_MAX:
            self._failures.popitem(last=False)

    def _recent(self, key: tuple[str, str]) -> deque[float] | None:
        times = self._failures.get(key)
        if times is None:
            return None
        since = self._clock() - self._window
        while times and times[0] <= since:
            times.popleft()
        if not times:
            del self._failures[key]
            return None
        return times
