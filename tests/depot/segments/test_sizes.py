"""How many bytes records take, known from the index: runs that add up to what blocks hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from depot_samples import numbers
from hypothesis import given
from hypothesis import strategies as st

from atoll.depot import Depot
from atoll.depot.segments.runs import Runs
from atoll.errors import DepotError

Open = Callable[..., Depot]


def _several_segments(open_depot: Open) -> Depot:
    """Three segments, each of some blocks, the third of them fat."""
    for n in range(3):
        depot = open_depot(partitions=1)
        for block in range(4):
            depot.append(numbers(40 * n + 10 * block, 10))
        if n < 2:
            depot.close()
    depot.append([{"k": "x" * 300_000, "v": 1}])
    return depot


def test_runs_add_up_to_the_blocks_that_are_read(open_depot: Open) -> None:
    """Over several segments, from the middle of a block on, and to the middle of another."""
    depot = _several_segments(open_depot)
    for start, end in ((0, 121), (3, 121), (45, 80), (7, 8), (115, 121)):
        refs = depot.blocks(0, start, end)
        runs = depot.sizes(0, start, end, 1_000)
        assert runs[-1][0] == end or sum(size for _, size in runs) > 1_000
        expected = sum(-(-ref.length * ref.take // ref.rows) for ref in refs)
        assert sum(size for _, size in runs[:-1]) <= 1_000
        assert sum(size for _, size in depot.sizes(0, start, end, 1 << 40)) == expected


def test_a_fat_record_is_a_run_of_its_own(open_depot: Open) -> None:
    """However small those before it are, so that a limit is kept by leaving it out."""
    runs = _several_segments(open_depot).sizes(0, 0, 121, 1 << 40)
    assert [end for end, _ in runs] == [120, 121]
    assert runs[1][1] > 300_000 > 10 * runs[0][1]


def test_nothing_is_looked_at_beyond_what_is_enough(open_depot: Open) -> None:
    """A backlog of years costs no more than one of minutes."""
    depot = _several_segments(open_depot)
    (first, size), *_ = depot.sizes(0, 0, 121, 1)
    assert (first, len(depot.sizes(0, 0, 121, 1))) == (10, 1)
    assert len(depot.sizes(0, 0, 121, 2 * size)) == 3


def test_offsets_that_are_not_there_are_refused(open_depot: Open) -> None:
    """As for the blocks."""
    with pytest.raises(DepotError):
        _several_segments(open_depot).sizes(0, 100, 122, 1)


@given(st.lists(st.integers(1, 100_000), max_size=60), st.integers(1, 1 << 40))
def test_runs_keep_ends_and_bytes(sizes: list[int], enough: int) -> None:
    """Whatever is joined: the sums at the ends are those of the blocks, and few runs are small."""
    runs = Runs(enough)
    seen = []
    for end, size in enumerate(sizes, 1):
        seen.append(size)
        if runs.add(end, size):
            break
    found = runs.found()
    assert sum(size for _, size in found) == sum(seen)
    at = 0
    for end, size in found:
        assert size == sum(sizes[at:end])
        at = end
    assert at == len(seen)
