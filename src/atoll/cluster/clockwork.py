"""What moves the topologies of a cluster: threads and the machine's clock, unless a test does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from atoll.microbatch.loop import TopologyLoop
from atoll.microbatch.stepping import Stepper


def now_ms() -> int:
    """The machine's clock, in milliseconds since 1970."""
    return int(time.time() * 1000)


def steady_ms() -> int:
    """Milliseconds by a clock that nobody sets: it only goes forward."""
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True)
class Drive:
    """How topologies go on from one microbatch to the next.

    Attributes:
        loop: Makes what moves one topology; called as :class:`TopologyLoop` is.
        now_ms: The clock of plans, commits and appended records.
        steady_ms: The clock by which commits stay readable for a time.
        watched: Whether threads look after modules: after the load of topologies whose policy is
            ``load``, what is wrong with topologies that run all the same, and modules that could
            not be started again.
    """

    loop: Callable[..., Stepper] = TopologyLoop
    now_ms: Callable[[], int] = now_ms
    steady_ms: Callable[[], int] = steady_ms
    watched: bool = True
