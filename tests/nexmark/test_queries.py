"""Every query gives what DuckDB finds in the same records, however they came."""

from __future__ import annotations

import pytest

from nexmark import queries, verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", queries.NAMES)
def test_equal_to_sql(name):
    """Random cuts, partitions, vnodes and actors; a failed attempt, and a reschedule."""
    seed = queries.NAMES.index(name)
    assert verify.check(name, 2_500, seed, 4) == []
