"""Waiting for a condition, in tests of runtimes."""

from __future__ import annotations

import time


def until(holds, seconds=20.0):
    """Look until something holds; what it gave."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.01)
    return found
