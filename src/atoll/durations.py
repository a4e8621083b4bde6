"""Lengths of time as users write them: ``"10 seconds"``, ``"1 hour 30 minutes"``, a timedelta."""

from __future__ import annotations

import datetime as dt
import re

from atoll.errors import DeclarationError

_UNITS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_PART = re.compile(r"(\d+)\s+([a-z]+?)s?")
_LONGEST = 100 * 366 * _UNITS["day"]


def parse_millis(duration: object, what: str, *, least: int = 1) -> int:
    """A length of time in whole milliseconds.

    Args:
        duration: Spark's words, ``"10 minutes"`` or ``"1 hour 30 minutes"``, or a timedelta.
        what: What it is the length of, for messages.
        least: The shortest that may be.

    Raises:
        DeclarationError: When it is no such length, or it is too short or too long.
    """
    millis = _millis(duration)
    if millis is None:
        raise DeclarationError(
            f"{what} cannot be {duration!r}",
            hint='write a number and a unit: "10 seconds", "5 minutes", "1 hour 30 minutes"; '
            f"units are {', '.join(_UNITS)}",
        )
    if not least <= millis <= _LONGEST:
        raise DeclarationError(
            f"{what} cannot be {duration!r}",
            hint=f"choose at least {least} ms and at most 100 years",
        )
    return millis


def _millis(duration: object) -> int | None:
    if isinstance(duration, dt.timedelta):
        whole, rest = divmod(duration, dt.timedelta(milliseconds=1))
        return None if rest else whole
    if not isinstance(duration, str):
        return None
    text = duration.strip().lower().removeprefix("interval ").strip()
    parts = [part for part in re.split(r"(?<=[a-z])\s+", text) if part]
    total = 0
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None or match[2] not in _UNITS:
            return None
        total += int(match[1]) * _UNITS[match[2]]
    return total if parts else None
