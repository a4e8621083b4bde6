"""A clock that stands still until a test moves it."""

from __future__ import annotations

import datetime as dt

from atoll.errors import UsageError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""Where the clock begins unless a test says otherwise."""


class VirtualClock:
    """The time of plans, commits and appended records under a test driver.

    Args:
        start: The instant at which it stands; with a time zone.

    Raises:
        UsageError: When the instant has no time zone.
    """

    def __init__(self, start: dt.datetime = START) -> None:
        if start.tzinfo is None:
            raise UsageError(
                "the clock cannot start at a time without a time zone",
                hint="write datetime(2026, 1, 1, tzinfo=UTC)",
            )
        self._now_ms = round(start.timestamp() * 1000)

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._now_ms

    def now(self) -> dt.datetime:
        """The instant, in UTC."""
        return dt.datetime.fromtimestamp(self._now_ms / 1000.0, tz=dt.UTC)

    def advance(self, seconds: float) -> None:
        """Move it on, to the millisecond.

        Raises:
            UsageError: When the time is below 0: a clock under a test never goes back.
        """
        if seconds < 0:
            raise UsageError(f"the clock cannot go back by {-seconds:g} s")
        self._now_ms += round(seconds * 1000)
