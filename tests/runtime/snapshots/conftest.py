"""Runtimes on the inline engine."""

from __future__ import annotations

import pytest
from metered import Watched

from atoll.cluster.local import LocalCluster
from atoll.runtime.service.runtimes import Runtimes


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture
def started(tmp_path):
    """Makes and starts a runtime on a cluster of its own; all are closed after the test."""
    open_ones = []

    def start(given, root=tmp_path / "root", **more):
        cluster = LocalCluster(root, engine="inline")
        runtimes = Runtimes(cluster, **more)
        open_ones.append((runtimes, cluster))
        runtimes.open()
        runtime = next(iter(runtimes), None)
        if runtime is None:
            runtime = runtimes.start(runtimes.create(given))
        return Watched(runtimes, runtime)

    yield start
    for runtimes, cluster in open_ones:
        runtimes.close()
        cluster.close()
