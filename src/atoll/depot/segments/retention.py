"""Which segments may go: a pure decision.

A segment goes whole, the oldest first, and never the newest. It goes when each limit that the
depot declares lets all of its records go, and nobody needs them any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from atoll.depot.segments.format import SegmentHeader
from atoll.depot.spec import Retention


def removable(
    headers: Sequence[SegmentHeader],
    ends: Sequence[int],
    retention: Retention,
    protected: Sequence[int] | None,
    now_ms: int,
) -> int:
    """How many of the oldest segments may go.

    Args:
        headers: All segments, oldest first.
        ends: Per depot partition, the offset after its last record.
        retention: The limits; without any, nothing goes.
        protected: Per depot partition, the lowest offset that somebody still needs.
        now_ms: The time, epoch milliseconds.
    """
    if retention.records_max is None and retention.age_seconds_max is None:
        return 0
    count = 0
    for following in headers[1:]:
        # all records before `following` lie below its bases and are no younger than it
        kept = protected is not None and _any_above(following.bases, protected)
        if retention.records_max is not None:
            records_max = retention.records_max
            kept = kept or _any_above(following.bases, [end - records_max for end in ends])
        if retention.age_seconds_max is not None:
            kept = kept or following.time_ms > now_ms - retention.age_seconds_max * 1000
        if kept:
            break
        count += 1
    return count


def _any_above(bases: Sequence[int], limits: Sequence[int]) -> bool:
    return any(base > limit for base, limit in zip(bases, limits, strict=True))
