"""What the tests of the protocol share: a store that refuses, and a depot."""

from __future__ import annotations

import pytest
from protocol_fakes import FakeDepot, FaultyStore


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
