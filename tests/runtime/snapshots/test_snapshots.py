"""Snapshots on the engine: computed once per crossing, for all instances of all copies."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from metered import by_count, definition
from waiting import until

from atoll.runtime.snapshots.counting import STEPS
from atoll.runtime.snapshots.worker import SnapshotWorker, calculated


class Recorded:
    """Computes as usual and remembers which calculations it was asked for."""

    def __init__(self, fails=(), hangs=None):
        self.asked = []
        self.fails = set(fails)
        self.hangs = hangs

    def worker(self, running, seconds_max=300.0):
        """A worker that computes so."""
        return SnapshotWorker(running, partial(self.calculate, running), seconds_max)

    def calculate(self, running, actor, wanted, by):
        """The state, unless this one is to fail or to hang."""
        self.asked.append((wanted.number, by))
        if by in self.fails:
            raise RuntimeError(f"instance {by} died")
        if self.hangs is not None and len(self.asked) == 1:
            assert self.hangs.wait(30)
        return calculated(running, actor, wanted, by)


@pytest.mark.parametrize("mode", ["log-batch", "spark-batch"])
def test_a_snapshot_counts_the_events_of_all_copies_and_reaches_all_instances(started, mode):
    """Two copies of two instances: the tenth event makes a snapshot of ten, computed once."""
    asked = Recorded()
    runtime = started(definition(by_count(10, mode), copies=2, instances=2), worker=asked.worker)
    runtime.send(range(9))
    assert runtime.calculator()["crossings"] == 0
    assert [number for number, _ in runtime.states()] == [0] * 4
    runtime.send([9, 100, 100])
    shown = runtime.offered(1)
    assert asked.asked == [(1, "1.0")]
    (first, *others) = runtime.states()
    assert others == [first] * 3
    assert first[0] == 1
    assert shown["mode"] == mode
    assert shown["last"]["events"] == first[1]["count"] == 10
    assert shown["steps"] == dict(zip(STEPS, [1, 4, 12, 1, 1, 1, 4], strict=True))
    runtime.send([1000] * 8)
    runtime.offered(2)
    assert {state["count"] for _, state in runtime.states()} == {10}
    assert {state["min"] for _, state in runtime.states()} == {100.0}
    assert len(asked.asked) == 2


def test_without_calc_local_the_state_stands_between_snapshots_and_with_it_it_drifts(started):
    """calc-local goes on from the offer in each instance, until the next one."""
    both = {"calc-local": True, "log-batch": {"update": {"event-count": 10}}}
    runtime = started(definition(both, copies=2))
    runtime.send([1] * 4, 1)
    runtime.send([9] * 4, 2)
    assert [state["avg"] for _, state in runtime.states()] == [1.0, 9.0]
    runtime.send([1, 9])
    runtime.offered(1)
    assert [(number, state["avg"]) for number, state in runtime.states()] == [(1, 5.0), (1, 5.0)]
    runtime.send([5], 1)
    assert [state["count"] for _, state in runtime.states()] == [11, 10]


def test_crossings_that_are_overtaken_are_counted_and_only_the_newest_is_computed(started):
    """Many windows at once ask for one snapshot: that of the last window."""
    asked = Recorded()
    runtime = started(definition(by_count(10)), worker=asked.worker)
    runtime.send(range(57))
    shown = runtime.offered(5)
    assert (shown["crossings"], shown["superseded"]) == (5, 4)
    assert [number for number, _ in asked.asked] == [5]
    assert runtime.states()[0][1]["min"] == 40.0
    assert runtime.states()[0][1]["max"] == 49.0


def test_a_sliding_window_is_of_the_last_events(started):
    """Size 5, slide 2 over 0..8: windows 0-4, 2-6, 4-8."""
    state = {
        "calc-local": False,
        "log-batch": {"update": {"sliding-window": {"size": 5, "slide": 2}}},
    }
    runtime = started(definition(state))
    for values, number, least in (([*range(5)], 1, 0.0), ([5, 6], 2, 2.0), ([7, 8], 3, 4.0)):
        runtime.send(values)
        runtime.offered(number)
        found = runtime.states()[0][1]
        assert (found["count"], found["min"]) == (5, least)


def test_a_window_by_duration_ends_without_events(started):
    """The clock alone makes a crossing; what came in the time counts."""
    state = {"calc-local": False, "log-batch": {"update": {"duration": {"seconds": 0.4}}}}
    runtime = started(definition(state, copies=2))
    runtime.send([1, 2, 3])
    until(lambda: runtime.states()[0][1]["count"] == 3)
    assert runtime.states()[0] == runtime.states()[1]
    until(lambda: runtime.states()[0][1]["count"] == 0)


def test_groups_take_their_part_of_a_snapshot(started):
    """A group that the window has nothing of begins anew."""
    runtime = started(definition(by_count(4), copies=2, group={"by": "k"}))
    running = runtime.running
    running.send("in", [{"v": value, "k": key} for value, key in ((1, "a"), (3, "a"), (5, "b"))])
    running.send("in", [{"v": 7, "k": "b"}])
    running.wait_all()
    runtime.offered(1)
    running.send("in", [{"v": 0, "k": "a"}, {"v": 0, "k": "c"}] * 2)
    running.wait_all()
    from atoll.runtime.service.showing import actor_stats

    shown = actor_stats(running, "meter")["instances"]
    counts = {each["group"]: each["state"]["count"] for each in shown if each["snapshot"] == 1}
    assert counts.get("a", 2) == 2
    assert counts.get("c", 0) == 0


def test_a_selected_instance_that_dies_is_followed_by_the_next_one(started):
    """And the snapshot is the same: it is a function of the range."""
    asked = Recorded(fails={"1.0"})
    runtime = started(definition(by_count(10), copies=2), worker=asked.worker)
    runtime.send(range(10))
    shown = runtime.offered(1)
    assert asked.asked == [(1, "1.0"), (1, "2.0")]
    assert shown["last"]["by"] == "2.0"
    assert {state["count"] for _, state in runtime.states()} == {10}


def test_a_selected_instance_that_hangs_is_followed_too_and_what_it_finds_later_is_nothing(
    started,
):
    """The offer is made once; the one that hung changes nothing when it comes back."""
    asked = Recorded(hangs=threading.Event())
    runtime = started(
        definition(by_count(10), copies=2), worker=partial(asked.worker, seconds_max=0.2)
    )
    runtime.send(range(10))
    shown = runtime.offered(1)
    assert shown["last"]["by"] == "2.0"
    asked.hangs.set()
    runtime.send(range(10))
    shown = runtime.offered(2)
    assert (shown["steps"]["snapshot-offer"], shown["crossings"]) == (2, 2)


def test_a_crossing_during_a_calculation_waits_for_it(started):
    """One at a time; the newest one that waits comes next."""
    asked = Recorded(hangs=threading.Event())
    runtime = started(definition(by_count(10)), worker=asked.worker)
    for _ in range(3):
        runtime.send(range(10))
    shown = runtime.calculator()
    assert (shown["open"]["number"], shown["waiting"]["number"], shown["superseded"]) == (1, 3, 1)
    asked.hangs.set()
    runtime.offered(3)
    assert [number for number, _ in asked.asked] == [1, 3]


def test_a_copy_that_joins_later_has_the_last_snapshot(started):
    """It is offered again; the others do not take it twice."""
    runtime = started(definition(by_count(10), copies=1))
    runtime.send(range(10))
    runtime.offered(1)
    runtime.runtime = runtime.runtimes.scale(runtime.runtime, 3)
    runtime.running.wait_all()
    assert [number for number, _ in runtime.states()] == [1, 1, 1]
    assert runtime.running.counters()[1]["meter"]["snapshots"] == 1
    assert runtime.calculator()["steps"]["copy-registration"] == 3
    runtime.send(range(10))
    runtime.offered(2)
    assert [number for number, _ in runtime.states()] == [2, 2, 2]


def test_a_stateless_runtime_registers_nothing(started):
    """No calculator, no log, no step but the first."""
    given = definition(by_count(10))
    given["actors"][1] = {
        "name": "meter",
        "type": "threshold",
        "params": {"key": "v", "threshold": 1},
    }
    runtime = started(given)
    assert runtime.runtimes.snapshots(runtime.runtime)["actors"] == {}
    assert runtime.running.app.depots() == ["intake"]
    assert "calculator" not in runtime.running.app.pstates()


def test_two_that_compute_at_once_offer_once(started):
    """Each finds the question and answers it; the number is stored once, all switch once."""
    asked = Recorded(hangs=threading.Event())
    runtime = started(definition(by_count(10), copies=2), worker=asked.worker)
    second = Recorded()
    other = second.worker(runtime.running)
    runtime.send(range(10))
    until(lambda: asked.asked)
    other.start()
    until(lambda: second.asked)
    asked.hangs.set()
    runtime.offered(1)
    runtime.send(range(10))
    shown = runtime.offered(2)
    other.close()
    assert [number for number, _ in asked.asked][:1] == [number for number, _ in second.asked][:1]
    assert shown["steps"]["snapshot-offer"] == 2
    assert runtime.running.counters()[1]["meter"]["snapshots"] == 2
    assert [number for number, _ in runtime.states()] == [2, 2]


def test_copies_that_go_and_come_back_count_no_event_twice(started):
    """Numbers of an instance in the log go on, also where its state was dropped."""
    runtime = started(definition(by_count(10), copies=2))
    runtime.send(range(6))
    for copies, fate in ((1, "drop"), (2, None)):
        runtime.runtime = runtime.runtimes.scale(runtime.runtime, copies, fate)
    runtime.send(range(6, 14))
    shown = runtime.offered(1)
    assert (shown["crossings"], shown["last"]["events"]) == (1, 10)
    assert {state["count"] for _, state in runtime.states()} == {10}
    runtime.send(range(14, 20))
    runtime.offered(2)
    numbers = [(state["count"], state["min"]) for _, state in runtime.states()]
    assert numbers[0] == numbers[1]
    assert numbers[0][0] == 10
    assert runtime.calculator()["steps"]["counter-tracking"] == 20
