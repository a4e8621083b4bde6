"""What steps keep for a time: entries beside the others, which begin with a time, soonest first."""

from __future__ import annotations

from atoll.codec.keys.elements import SIGN_BIT
from atoll.topology.times import NEVER

TIME_BYTES = 9
"""Of a time as a key element."""
_GRAIN_MS = 1_000
_GRAINS = 8
"""Forgetting may be late by that part of the time, so that it is worth a microbatch."""


def due_ms(first_ms: int, span_ms: int) -> int:
    """When there is something to forget that is worth it.

    Args:
        first_ms: When the first of it may be forgotten; ``NEVER`` when there is nothing.
        span_ms: For how long such things are kept.
    """
    if first_ms == NEVER:
        return NEVER
    grain = max(_GRAIN_MS, span_ms // _GRAINS)
    return -(-first_ms // grain) * grain


def time_of(key: bytes) -> int:
    """The time that a key begins with."""
    return int.from_bytes(key[1:TIME_BYTES]) - SIGN_BIT
