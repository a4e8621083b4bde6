"""Runtimes on the inline engine, and a client of a service over them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from atoll.cluster.local import LocalCluster
from atoll.runtime.service.runtimes import Runtimes
from atoll.server import create_app


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture
def cluster(tmp_path):
    """A cluster without Spark."""
    with LocalCluster(tmp_path / "root", engine="inline") as running:
        yield running


@pytest.fixture
def runtimes(cluster):
    """The runtimes of its root."""
    found = Runtimes(cluster)
    found.open()
    yield found
    found.close()


@pytest.fixture
def client(runtimes):
    """A client of their service."""
    with TestClient(create_app(runtimes=runtimes), base_url="http://127.0.0.1:7410") as found:
        yield found


def threshold(name, least):
    """An actor that lets pass what reaches a number."""
    return {"name": name, "type": "threshold", "params": {"key": "v", "threshold": least}}


@pytest.fixture
def definition():
    """Two thresholds, one after the other."""
    return {
        "name": "runtime1",
        "actors": [threshold("low", 10), threshold("high", 20)],
        "links": [{"from": "low", "to": "high"}],
    }
