"""Depots in temporary folders, closed after each test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from depot_samples import spec_of

from atoll.depot import Depot


@pytest.fixture
def open_depot(tmp_path: Path) -> Iterator[Callable[..., Depot]]:
    """Open the test's depot: keywords of ``spec_of`` and of ``Depot``."""
    opened: list[Depot] = []

    def open_one(folder: Path | None = None, **options: Any) -> Depot:
        about = {key: options.pop(key) for key in ("epoch", "fence", "clock") if key in options}
        depot = Depot(folder or tmp_path / "depot", spec_of(**options), **about)
        opened.append(depot)
        return depot

    yield open_one
    for depot in opened:
        depot.close()
