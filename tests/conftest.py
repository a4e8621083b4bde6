"""In which order the tests run, and how they start Java.

Three processes take the tests file by file (``--dist loadfile``). The files with slow tests go
first, so that all processes end at about the same time.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# No test lives long enough to earn what Java's second compiler costs.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


# Tests share machines with other work: how long one example takes, or is made, says nothing.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.hookimpl(trylast=True)  # after the files were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with slow tests first, each file's tests together."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
