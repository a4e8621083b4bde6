"""Which copy takes a record: one rule, for one record and for many, whatever happens later."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.ddl import parse_ddl
from atoll.runtime.engine.intake import (
    COPIES_MAX,
    FOR_ALL,
    INTAKE_DDL,
    copies_of,
    copy_of,
    copy_of_vnode,
    key_vnode,
    record,
    vnode_of_copy,
)
from atoll.runtime.engine.packing import packer, unpacked

SCHEMA = parse_ddl(INTAKE_DDL)


def batch(records):
    """Records as a depot has them."""
    return pa.RecordBatch.from_pylist(records, schema=SCHEMA)


def event(turn, **parts):
    """An event of that turn."""
    return record("trigger", "a", {"v": turn}, turn=turn, at=turn, **parts)


@settings(derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**50),
            st.none() | st.integers(1, 40),
            st.none() | st.integers(0, 255),
        ),
        min_size=1,
    ),
    st.integers(1, COPIES_MAX),
)
def test_one_record_and_many_find_the_same_copy(parts, copies):
    """What a shunt's caller looks for is where the microbatch has put it."""
    made = [event(turn, copy=copy, vnode=vnode) for turn, copy, vnode in parts]
    assert copies_of(batch(made), copies).tolist() == [copy_of(each, copies) for each in made]


def test_records_without_key_go_round_robin_and_those_with_a_key_stay_together():
    """Case 36 as far as it applies: three events without key, two copies: first, second, first."""
    assert [copy_of(event(turn), 2) for turn in range(3)] == [1, 2, 1]
    keyed = {copy_of(event(turn, vnode=key_vnode("amsterdam")), 5) for turn in range(20)}
    assert len(keyed) == 1
    assert key_vnode(None) is None
    assert key_vnode({}) is None


def test_the_ring_of_keys_is_divided_evenly():
    """Coral's example: of four copies each owns a quarter, beginning at 0, 64, 128 and 192."""
    owners = [copy_of_vnode(vnode, 4) for vnode in range(256)]
    assert [owners.index(copy) for copy in (1, 2, 3, 4)] == [0, 64, 128, 192]
    for copies in range(1, COPIES_MAX + 1):
        owned = Counter(copy_of_vnode(vnode, copies) for vnode in range(256))
        assert set(owned) == set(range(1, copies + 1))
        assert max(owned.values()) - min(owned.values()) <= 1


def test_each_copy_has_a_vnode_of_its_own_and_few_copies_lie_on_different_units():
    """So n copies keep n units busy."""
    assert len({vnode_of_copy(copy) for copy in range(1, COPIES_MAX + 1)}) == COPIES_MAX
    for units in (2, 4, 8):
        assert {vnode_of_copy(copy) * units // 256 for copy in range(1, units + 1)} == set(
            range(units)
        )


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_packing_gives_each_copy_its_records_in_order_and_all_copies_what_is_for_all(copies):
    """A record for all stands between the same records of a copy as in the intake."""
    made = [event(turn) for turn in range(10)]
    made.insert(4, record(FOR_ALL[0], "", {"revision": 1}, turn=99, at=99))
    made.append(record("drop", "", {"revision": 1}, turn=100, at=100, copy=copies + 3))
    halves = iter([batch(made[:5]), batch(made[5:])])
    rows = [row for each in packer(copies)(halves) for row in each.to_pylist()]
    found = {row["copy"]: unpacked(row["records"]).column("at").to_pylist() for row in rows}
    assert found.pop(copies + 3) == [100]
    assert set(found) == set(range(1, copies + 1))
    for copy, turns in found.items():
        own = [turn for turn in range(10) if turn % copies + 1 == copy]
        before = [turn for turn in own if turn < 4]
        assert turns == [*before, 99, *own[len(before) :]]
