"""What is filled, and how to keep it from joining."""

from __future__ import annotations

import pytest

from atoll.cluster.backfill.deciding import Standing


@pytest.fixture
def held(monkeypatch):
    """What is filled does not join before it is let go."""
    monkeypatch.setattr(Standing, "move", property(lambda _: "go on"))
    return monkeypatch.undo
