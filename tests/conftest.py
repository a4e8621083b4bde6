"""How the tests are divided between the processes that run them, and how they start Java.

Tests that use Spark in the test's own process stay together, so that one process starts it once;
of the others each file stays together, since its tests share fixtures.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
ON_SPARK = ("cluster", "docs", "spark", "faults/spark/test_workers.py")
"""Folders and files whose tests share the process's Spark session."""

# No test lives long enough to earn what Java's second compiler costs.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


# Tests share machines with other work: how long one example takes says nothing.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the group of each test, for ``--dist loadgroup``."""
    for item in items:
        file = item.path.relative_to(HERE)
        shared = any(file.is_relative_to(each) for each in ON_SPARK)
        item.add_marker(pytest.mark.xdist_group("spark" if shared else file.as_posix()))
