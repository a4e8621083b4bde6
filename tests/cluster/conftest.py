"""One Spark session for all tests; a cluster on a folder of its own for each."""

from __future__ import annotations

import pytest

from atoll.cluster.local import LocalCluster


@pytest.fixture
def cluster(tmp_path):
    """A cluster that is closed after the test; Spark goes on for the next one."""
    with LocalCluster(tmp_path / "root") as running:
        yield running
