"""Workers: joining, leaving, coming back, cordons and removal; identities that last."""

from __future__ import annotations

import msgspec
import pytest
from clusters import lose
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import NotFoundError, RescheduleError, UsageError
from atoll.placement.info import ClusterInfo, Fragment, Worker
from atoll.placement.workers import cordon, join, remove, uncordon


def three() -> ClusterInfo:
    """Workers a, b and c with two units each, at revision 3."""
    info = ClusterInfo()
    for name in "abc":
        info = join(info, name, f"host-{name}", 2)
    return info


def busy() -> ClusterInfo:
    """The same with a source on a and b, a hash fragment on b, and a singleton on a."""
    fragments = (
        Fragment(1, "t", "source", "source", 1, (), (1, 2)),
        Fragment(2, "t", "count", "hash", 2, ("$$counts",), (2, 3, 3, 2)),
        Fragment(3, "t", "total", "singleton", 3, ("$$total",), (0,)),
    )
    return msgspec.structs.replace(three(), fragments=fragments)


# Joining ------------------------------------------------------------------------------------------


def test_new_workers_get_new_ids():
    """Worker and unit ids count up from 0; every join is a revision."""
    info = three()
    assert [
        Worker(0, "a", "host-a", (0, 1)),
        Worker(1, "b", "host-b", (2, 3)),
        Worker(2, "c", "host-c", (4, 5)),
    ] == list(info.workers)
    assert (info.revision, info.next_worker, info.next_unit) == (3, 3, 6)


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("cordoned", [False, True])
def test_a_known_worker_keeps_what_it_is(gone: bool, cordoned: bool):
    """Id, units and cordon stay when it comes back, even on another host."""
    info = cordon(three(), [1]) if cordoned else three()
    info = lose(info, "b") if gone else info
    back = join(info, "b", "elsewhere", 2)
    assert Worker(1, "b", "elsewhere", (2, 3), cordoned=cordoned) == back.worker(1)
    assert info.revision + 1 == back.revision
    assert (info.workers[0], info.workers[2]) == (back.workers[0], back.workers[2])


def test_a_worker_with_more_units_gets_further_ids():
    """Appended to those that it has, above all that were ever given."""
    info = join(three(), "a", "host-a", 4)
    assert info.worker(0).units == (0, 1, 6, 7)
    assert info.next_unit == 8


def test_a_worker_with_fewer_units_loses_the_highest():
    """And does not get them again when it grows: ids are never used twice."""
    small = join(three(), "b", "host-b", 1)
    assert small.worker(1).units == (2,)
    assert small.worker_of(3) is None
    again = join(small, "b", "host-b", 2)
    assert again.worker(1).units == (2, 6)


def test_fragments_on_a_lost_unit_still_name_it():
    """Joining moves nothing: the caller re-plans."""
    info = busy()
    assert info.fragments == join(info, "b", "host-b", 1).fragments


def test_a_join_that_changes_nothing_gives_the_same_object():
    """So that a worker may repeat itself without making revisions."""
    info = three()
    assert info is join(info, "b", "host-b", 2)


@pytest.mark.parametrize(("name", "units"), [("", 1), ("d", 0), ("a", 0), ("a", -1)])
def test_joins_that_cannot_be(name: str, units: int):
    """No name, or no unit."""
    with pytest.raises(UsageError, match="cannot join"):
        join(three(), name, "host", units)


# Leaving ------------------------------------------------------------------------------------------


def test_a_lost_worker_keeps_its_units_for_its_return():
    """It counts as gone, and its units are not live."""
    info = lose(three(), "b")
    assert Worker(1, "b", "host-b", (2, 3), gone=True) == info.worker(1)
    assert info.live_units() == (0, 1, 4, 5)


# Cordons ------------------------------------------------------------------------------------------


def test_cordons_come_and_go():
    """Several at once are one revision; a cordon twice is none."""
    info = three()
    closed = cordon(info, [0, 2])
    assert [each.state for each in closed.workers] == ["cordoned", "running", "cordoned"]
    assert closed.schedulable_units() == (2, 3)
    assert info.live_units() == closed.live_units()
    assert info.revision + 1 == closed.revision
    assert closed is cordon(closed, [2, 0, 2])
    opened = uncordon(closed, [0, 1, 2])
    assert info.workers == opened.workers
    assert closed.revision + 1 == opened.revision
    assert opened is uncordon(opened, [0])
    assert info is cordon(info, [])


@pytest.mark.parametrize("change", [cordon, uncordon, remove])
def test_unknown_ids_are_refused(change):
    """Also beside known ones."""
    with pytest.raises(NotFoundError, match="worker 7"):
        change(three(), [0, 7])


# Removal ------------------------------------------------------------------------------------------


def test_a_worker_without_actors_can_be_removed():
    """It joins as a new one afterwards: neither its id nor its units come back."""
    info = remove(busy(), [2])
    assert [each.name for each in info.workers] == ["a", "b"]
    assert info.revision == 4
    assert Worker(3, "c", "host-c", (6, 7)) == join(info, "c", "host-c", 2).worker(3)
    assert info is remove(info, [])


@pytest.mark.parametrize("gone", [False, True])
def test_a_worker_with_actors_cannot_be_removed(gone: bool):
    """Not even when it has gone: its state may lie there. All fragments are listed."""
    info = lose(busy(), "b") if gone else busy()
    with pytest.raises(RescheduleError, match=r"worker 1 \(b\)") as caught:
        remove(info, [2, 1])
    assert caught.value.context == {
        "problem": "worker occupied",
        "workers": [1],
        "fragments": {1: [2], 2: [2, 3]},
    }
    assert caught.value.hint


def test_several_occupied_workers_are_all_named():
    """Lowest first, with every fragment that one of them runs."""
    with pytest.raises(RescheduleError) as caught:
        remove(busy(), [1, 0])
    assert caught.value.message == "actors still run on worker 0 (a), worker 1 (b)"
    assert caught.value.context["fragments"] == {1: [1, 2], 2: [2, 3], 3: [0]}


# Any history --------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from("abcd"), st.integers(1, 5)),
        st.tuples(
            st.sampled_from(["lose", "cordon", "uncordon", "remove"]), st.sampled_from("abcd")
        ),
    ),
    max_size=40,
)


def follow(info: ClusterInfo, step: tuple) -> ClusterInfo:
    """The cluster after a step; as it was when the step names nobody."""
    ids = [each.id for each in info.workers if each.name == step[1]]
    match step:
        case ("join", name, units):
            return join(info, name, "host", units)
        case ("lose", name):
            return lose(info, name) if ids else info
        case ("cordon", _):
            return cordon(info, ids)
        case ("uncordon", _):
            return uncordon(info, ids)
    return remove(info, ids)


@given(STEPS)
def test_ids_are_never_used_again(steps: list[tuple]):
    """Over any history a unit belongs to one worker only, and a worker's id to one name.

    On the way: units are sorted, names are unique, and a new value is exactly one revision.
    """
    info, homes, names = ClusterInfo(), {}, {}
    retired: set[int] = set()
    for step in steps:
        after = follow(info, step)
        assert after is info or step[0] == "lose" or info.revision + 1 == after.revision
        for worker in after.workers:
            assert worker.name == names.setdefault(worker.id, worker.name)
            assert list(worker.units) == sorted(set(worker.units))
            assert all(worker.id == homes.setdefault(unit, worker.id) for unit in worker.units)
            assert retired.isdisjoint(worker.units)
        assert len(after.workers) == len({each.name for each in after.workers})
        retired |= {unit for unit in homes if after.worker_of(unit) is None}
        assert all(unit < after.next_unit for unit in homes)
        info = after
