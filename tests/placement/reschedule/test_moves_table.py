"""How many vnodes the changes move that people make most: the table that must not get worse.

The bounds are numbers, not formulas, so that they hold whatever the code believes to be least.
"""

from __future__ import annotations

import pytest
from clusters import is_even

from atoll.placement.mapping import Mapping
from atoll.placement.reschedule.rebalance import moves, moves_least, rebalance

# Vnodes, units before, units added, units removed, vnodes moved at most.
TABLE = [
    pytest.param(12, 3, [3], [], 3, id="12 vnodes, 3 to 4"),
    pytest.param(256, 3, [3], [], 64, id="3 to 4"),
    pytest.param(256, 4, [], [0], 64, id="4 to 3"),
    pytest.param(256, 3, [3], [0], 86, id="replace 1 of 3"),
    pytest.param(256, 4, [4, 5, 6, 7], [], 128, id="4 to 8"),
    pytest.param(256, 6, [], [1, 2, 3, 4, 5], 213, id="6 to 1"),
    pytest.param(256, 1, [1, 2, 3, 4, 5], [], 213, id="1 to 6"),
    pytest.param(256, 6, [], [0, 1], 86, id="6 to 4"),
    pytest.param(256, 3, [3, 4], [0], 128, id="3, one for two"),
    pytest.param(256, 3, [3], [0, 1], 171, id="3, two for one"),
    pytest.param(256, 42, [42], [], 5, id="42 to 43"),
    pytest.param(256, 42, [], [0], 7, id="42 to 41"),
    pytest.param(256, 255, [255], [0, 1], 3, id="255, two for one"),
]


@pytest.mark.parametrize(("vnodes", "units", "added", "removed", "most"), TABLE)
def test_moves_from_an_even_mapping(
    vnodes: int, units: int, added: list[int], removed: list[int], most: int
) -> None:
    """No more than the table says, and as many as the bound says."""
    before = Mapping.even(vnodes, range(units))
    after = rebalance(before, added=added, removed=removed)
    assert is_even(after)
    assert len(moves(before, after)) == moves_least(before, added, removed) <= most


def test_sizes_after_four_to_three() -> None:
    """256 vnodes over three units: 85, 85 and 86."""
    after = rebalance(Mapping.even(256, range(4)), added=[], removed=[0])
    assert sorted(after.counts().values()) == [85, 85, 86]


def test_sizes_or_workers_move_no_more_vnodes() -> None:
    """Saving bytes never costs a move."""
    sizes = [vnode * 7_919 % 1_000 for vnode in range(256)]
    for vnodes, units, added, removed, most in (row.values for row in TABLE):
        before = Mapping.even(vnodes, range(units))
        after = rebalance(
            before,
            added=added,
            removed=removed,
            worker_of=lambda unit: unit // 2,
            sizes=sizes[:vnodes],
        )
        assert len(moves(before, after)) <= most
