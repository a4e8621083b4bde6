"""What the tests of the protocol share: a store that refuses, a depot, and loops that run."""

from __future__ import annotations

import pytest
from protocol_fakes import FakeDepot, FaultyStore

from atoll.microbatch.loop import TopologyLoop


@pytest.fixture
def store():
    """An empty store in memory."""
    return FaultyStore()


@pytest.fixture
def depot():
    """A depot with three records."""
    found = FakeDepot()
    found.end = 3
    return found


@pytest.fixture
def run_loop():
    """Starts a loop with what it acts by and its first state; all of them are closed at the end."""
    loops = []

    def begin(actions, state, **parts):
        loop = TopologyLoop(actions, state, **parts)
        loops.append(loop)
        loop.start()
        return loop

    yield begin
    for loop in loops:
        loop.actions.executor.cancel()
        loop.close()
