"""Windows of the batch state calculator, without anything that runs: what a snapshot is of."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.runtime.definition.structs import Duration, EventCount, Sliding
from atoll.runtime.snapshots.counting import (
    Counted,
    counted,
    offered,
    present,
    registered,
    selected,
    ticked,
)

INSTANCES = ("1.0", "1.1", "2.0")
COUNTS = st.lists(st.dictionaries(st.sampled_from(INSTANCES), st.integers(1, 30)), max_size=30)


def fed(counts, update, *, answer=True):
    """The windows asked for, when each is answered at once (or never), and the state at the end."""
    state, seen, windows = Counted(), dict.fromkeys(INSTANCES, 0), []
    for at, more in enumerate(counts):
        for instance, count in more.items():
            seen[instance] += count
        state = counted(state, {each: seen[each] for each in more}, at, update)
        while answer and state.open is not None:
            windows.append(state.open)
            state = offered(state, state.open.number, "1.0", state.open.events, at)
    return windows, state, sum(seen.values())


@settings(derandomize=True)
@given(COUNTS, st.integers(1, 40))
def test_windows_by_count_are_of_exactly_so_many_events_and_never_share_one(counts, size):
    """Whatever comes together: what is beyond a window counts for the next one."""
    windows, state, total = fed(counts, EventCount(size))
    assert state.total == total
    assert state.crossings == total // size == len(windows) + state.superseded
    counted_events = set()
    for window in windows:
        events = {
            (instance, number)
            for instance, (first, end) in window.ranges.items()
            for number in range(first, end)
        }
        assert len(events) == window.events == size
        assert not events & counted_events
        counted_events |= events


def test_what_is_kept_of_a_long_window_is_a_run_per_instance():
    """However many microbatches it takes to fill it."""
    counts = [{"1.0": 1, "2.0": 2}] * 300
    _, state, _ = fed(counts, EventCount(1_000))
    assert len(state.runs) == 2
    assert sum(run.count for run in state.runs) == 900
    _, state, _ = fed(counts, Duration(1_000_000))
    assert len(state.runs) == 2


@settings(derandomize=True)
@given(COUNTS, st.integers(2, 30), st.integers(1, 29))
def test_a_sliding_window_is_of_the_last_so_many_events(counts, size, slide):
    """The first when it is full, then one each time so many more have come."""
    slide = min(slide, size - 1)
    windows, state, total = fed(counts, Sliding(size, slide, "events"))
    expected = 0 if total < size else (total - size) // slide + 1
    assert state.crossings == expected
    assert all(window.events == size for window in windows)
    assert sum(run.count for run in state.runs) < size + slide


@settings(derandomize=True)
@given(COUNTS, st.integers(1, 20))
def test_while_one_is_computed_the_newest_crossing_waits(counts, size):
    """Crossings are computed, wait, or are counted as superseded: none is lost."""
    _, state, _ = fed(counts, EventCount(size), answer=False)
    here = (state.open is not None) + (state.waiting is not None)
    assert state.crossings == here + state.superseded
    if state.waiting is not None:
        assert state.waiting.number == state.crossings
        after = offered(state, state.open.number, "1.0", 1, 0)
        assert after.open.number == state.waiting.number
        assert after.waiting is None


def test_an_offer_that_is_no_news_changes_nothing():
    """A late or repeated one, by its number."""
    _, state, _ = fed([{"1.0": 10}, {"1.0": 10}], EventCount(10))
    assert state.last == 2
    assert offered(state, 2, "2.0", 10, 9) is state
    assert offered(state, 1, "2.0", 10, 9) is state


def test_counts_are_totals_so_one_that_comes_again_counts_nothing():
    """Updates say how many events an instance has had in all."""
    state = counted(Counted(), {"1.0": 7}, 0, EventCount(10))
    assert counted(state, {"1.0": 7}, 1, EventCount(10)).total == 7


def test_windows_by_time_end_on_the_clock_and_missed_ones_are_counted():
    """The window of a duration holds what came since; a sliding one what is young enough."""
    update = Duration(100)
    state = registered(Counted(), ["1.0"], 1, 1_000, update)
    assert state.due == 1_100
    state = counted(state, {"1.0": 3}, 1_050, update)
    assert ticked(state, 1_099, update) is state
    state = ticked(state, 1_350, update)
    assert (state.crossings, state.superseded, state.due) == (3, 2, 1_400)
    assert (state.open.events, state.open.number) == (3, 3)
    assert state.runs == []
    sliding = Sliding(200, 100, "ms")
    state = registered(Counted(), ["1.0"], 1, 1_000, sliding)
    for at, seen in ((1_010, 1), (1_110, 2), (1_190, 4)):
        state = counted(state, {"1.0": seen}, at, sliding)
    state = ticked(state, 1_200, sliding)
    assert state.open.ranges == {"1.0": (1, 5)}
    state = ticked(offered(state, 2, "1.0", 4, 0), 1_300, sliding)
    assert state.open.ranges == {"1.0": (2, 5)}


def test_instances_are_selected_in_turn_and_the_next_one_at_each_attempt():
    """Those of copies that have gone are selected no more; how many events they had stays known."""
    state = registered(Counted(), INSTANCES, 2, 0, EventCount(10))
    assert [selected(present(state), number) for number in (1, 2, 3, 4)] == [
        "1.0",
        "1.1",
        "2.0",
        "1.0",
    ]
    assert selected(present(state), 1, attempt=1) == "1.1"
    state = counted(state, {"2.0": 5}, 0, EventCount(10))
    state = registered(state, ["1.0", "1.1"], 1, 0, EventCount(10))
    assert present(state) == ["1.0", "1.1"]
    assert state.instances["2.0"] == 5
