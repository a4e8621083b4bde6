"""In which order the tests run, how they start Java, and fixtures that several folders share.

Three processes take the tests file by file (``--dist loadfile``). The files with slow tests go
first, so that all processes end at about the same time.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

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


@pytest.fixture
def silent_logs():
    """A service logs in threads of its own, also into the output of the next test."""
    logger = logging.getLogger("atoll")
    logger.handlers = [logging.NullHandler()]
    logger.propagate = False


@dataclass
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_atoll(capsys, monkeypatch):
    """Call ``atoll`` with arguments; never a traceback, whatever happens."""
    from atoll.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["atoll", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Done(int(code), captured.out, captured.err)

    return call
