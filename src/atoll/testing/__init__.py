"""For tests: a driver that runs a module's microbatches when it is told to, on a virtual clock.

And state in memory, for tests of single functions of ``process``.
"""

from __future__ import annotations

from atoll.testing.changes import Change
from atoll.testing.clock import VirtualClock
from atoll.testing.driver import TopologyTestDriver
from atoll.testing.memory import State, call, state

__all__ = ["Change", "State", "TopologyTestDriver", "VirtualClock", "call", "state"]
