"""Waits until what was appended to depots is processed, and readers see what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from atoll.errors import UsageError

if TYPE_CHECKING:
    from atoll.microbatch.stepping import Stepper


def wait_committed(
    loops: Mapping[str, Stepper],
    depot: str,
    now: Sequence[int],
    ends: Mapping[int, int] | None,
    timeout_seconds: float,
) -> dict[str, int]:
    """For each topology that reads the depot the microbatch that readers see when it is done.

    Args:
        loops: The topologies, by name.
        depot: The depot.
        now: Its end offsets.
        ends: By depot partition the offset to wait for; those of now when None.
        timeout_seconds: How long to wait for all of them.

    Raises:
        UsageError: When the depot has no such depot partition.
        WaitTimeoutError: When it takes longer.
    """
    wanted = dict(enumerate(now)) if ends is None else dict(ends)
    unknown = sorted(each for each in wanted if not 0 <= each < len(now))
    if unknown:
        raise UsageError(
            f"depot {depot!r} has depot partitions 0 to {len(now) - 1}, not {unknown[0]}",
            hint="give the offsets that the append answered with",
        )
    until = time.monotonic() + timeout_seconds
    return {
        name: loop.wait_reached({depot: wanted}, max(0.0, until - time.monotonic())).id
        for name, loop in sorted(loops.items())
        if depot in loop.depots
    }


def wait_fresh(loop: Stepper, timeout_seconds: float) -> int:
    """The microbatch that shows all that the depots of a topology hold when this is called.

    Raises:
        WaitTimeoutError: When it takes longer.
    """
    ends = {name: dict(enumerate(each.end_offsets())) for name, each in loop.depots.items()}
    return loop.wait_reached(ends, timeout_seconds).id
