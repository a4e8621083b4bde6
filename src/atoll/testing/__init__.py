"""For tests of modules: a driver that runs microbatches when it is told to, on a virtual clock."""

from __future__ import annotations

from atoll.testing.changes import Change
from atoll.testing.clock import VirtualClock
from atoll.testing.driver import TopologyTestDriver

__all__ = ["Change", "TopologyTestDriver", "VirtualClock"]
