"""What the fault suites on Spark share."""

from __future__ import annotations

import pytest
from worker_bench import Bench


@pytest.fixture
def bench(tmp_path):
    """Makes a bench, and closes it."""
    made = []

    def make(*, limited):
        made.append(Bench(tmp_path, limited=limited))
        return made[-1]

    yield make
    for each in made:
        (each.folder / "go").touch()
        each.cluster.close()
