"""Which records a microbatch takes, and what a depot that lost some means."""

from __future__ import annotations

import pytest

from atoll.errors import DamageError
from atoll.microbatch.plans.planning import choose_ranges, lost_records


def test_from_the_progress_and_no_more_than_the_most() -> None:
    """From where the last one ended; from the oldest record when retention went past it."""
    ranges = choose_ranges({"d": [5, 5]}, {"d": [0, 7]}, {"d": [50, 9]}, {"d": 10})
    assert ranges == {"d": [(5, 15), (7, 9)]}


@pytest.mark.parametrize(("ends", "lost"), [([5, 6], False), ([5, 4], True), ([0, 9], True)])
def test_a_depot_that_ends_before_the_progress(ends: list[int], lost: bool) -> None:
    """It is damage that names the depot: the next records would be skipped otherwise."""
    found = lost_records({"d": [5, 5]}, {"d": ends})
    assert isinstance(found, DamageError) == lost
    if found is not None:
        assert found.context["depot"] == "d"
        assert ends[found.context["depot_partition"]] < 5
