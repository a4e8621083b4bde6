"""Where a topology begins to read a depot that it meets for the first time.

``atoll.start.beginning()``, ``atoll.start.after_timestamp(ms)``, ``atoll.start.ago(3, "hours")``;
without one, a topology sees what is appended from then on. Later starts go on where the last
commit ended, whatever is declared here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from atoll.errors import DeclarationError

__all__ = ["StartFrom", "Unit", "after_timestamp", "ago", "beginning", "end"]

Unit = Literal["records", "seconds", "minutes", "hours", "days"]

_UNIT_MILLISECONDS = {"seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}


@dataclass(frozen=True, slots=True)
class StartFrom:
    """One choice, resolved to an offset per depot partition at the first encounter.

    Attributes:
        kind: ``end``, ``beginning``, ``timestamp``, ``records`` or ``milliseconds`` (ago).
        amount: The timestamp (epoch milliseconds), the number of records, or the milliseconds.
    """

    kind: Literal["end", "beginning", "timestamp", "records", "milliseconds"]
    amount: int = 0

    def offsets(self, firsts: Sequence[int], lasts: Sequence[int]) -> tuple[int, ...] | None:
        """The offset per partition, where the ends alone tell; None where a time must be found.

        Args:
            firsts: The offset of the oldest record, by partition.
            lasts: The offset that the next record will get, by partition.
        """
        match self.kind:
            case "end":
                return tuple(lasts)
            case "beginning":
                return tuple(firsts)
            case "records":
                wanted = (last - self.amount for last in lasts)
                return tuple(max(pair) for pair in zip(firsts, wanted, strict=True))
        return None

    def after_ms(self, now_ms: int) -> int:
        """The time, in epoch milliseconds, after which records are of interest."""
        return self.amount if self.kind == "timestamp" else now_ms - self.amount

    @staticmethod
    def end() -> StartFrom:
        """Only what is appended after the first encounter (the default)."""
        return StartFrom("end")

    @staticmethod
    def beginning() -> StartFrom:
        """The oldest record that is still there."""
        return StartFrom("beginning")

    @staticmethod
    def after_timestamp(timestamp: float | dt.datetime) -> StartFrom:
        """The first record appended after the time, per depot partition.

        Args:
            timestamp: Epoch milliseconds, or an aware datetime.

        Raises:
            DeclarationError: When a datetime has no time zone.
        """
        if isinstance(timestamp, dt.datetime):
            if timestamp.tzinfo is None:
                raise DeclarationError(
                    "start-from needs a datetime with a time zone",
                    hint="add tzinfo=datetime.timezone.utc",
                    timestamp=timestamp.isoformat(),
                )
            timestamp = timestamp.timestamp() * 1000
        return StartFrom("timestamp", int(timestamp))

    @staticmethod
    def ago(count: float, unit: Unit) -> StartFrom:
        """The last ``count`` records of each depot partition, or those of the last so long.

        Raises:
            DeclarationError: When the count is negative or the unit unknown.
        """
        if count < 0:
            raise DeclarationError("start-from ago needs a count of 0 or more", count=count)
        if unit == "records":
            return StartFrom("records", int(count))
        if unit not in _UNIT_MILLISECONDS:
            raise DeclarationError(
                f"{unit!r} is no unit",
                hint=f"use records, {', '.join(_UNIT_MILLISECONDS)}",
            )
        return StartFrom("milliseconds", int(count * _UNIT_MILLISECONDS[unit]))


end = StartFrom.end
beginning = StartFrom.beginning
after_timestamp = StartFrom.after_timestamp
ago = StartFrom.ago
