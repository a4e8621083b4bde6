"""Holds what the stateful types do: acceptance cases 3 to 6, 13 to 17, 23 and 24."""

from __future__ import annotations

import math

import pytest

from atoll.runtime.actors.group import Grouped
from atoll.runtime.actors.interface import Given
from atoll.runtime.actors.timeout import Resetting
from atoll.runtime.moments import Moments

EMPTY = {"count": 0, "avg": None, "sd": None, "min": None, "max": None}
ONE = {"count": 1, "avg": 2.7, "sd": 0.0, "min": 2.7, "max": 2.7}
TABLE = {
    "normal": {"small": "normal", "large": "normal", "x-large": "suspicious"},
    "suspicious": {"small": "normal", "large": "suspicious", "x-large": "alarm"},
    "alarm": {"small": "suspicious", "large": "alarm", "x-large": "alarm"},
}


def test_case_3_stats(actor):
    """From nothing to one number, and back by a timer."""
    stats = actor("stats", field="val")
    assert stats.read() == EMPTY
    assert stats.send({"bla": 1.0, "val": 2.7}) == []
    assert stats.read() == ONE
    assert stats.send({"bla": 1.0}) is None
    assert stats.read() == ONE


@pytest.mark.parametrize(("mode", "later"), [("continue", EMPTY), ("exit", {**ONE, "count": 1})])
def test_case_3_stats_are_reset_by_a_timeout(actor, mode, later):
    """The time begins with the first event; then the state is the initial one, once or always."""
    stats = actor("stats", field="val")
    stats.kind = Resetting(stats.kind, 1_000, mode)
    stats.state = stats.kind.initial(stats.params)
    assert stats.tick(10_000) == []
    stats.send({"val": 2.7}, at_ms=500)
    assert (stats.tick(1_499), stats.read()) == ([], ONE)
    assert (stats.tick(1_500), stats.read()) == ([], EMPTY)
    stats.send({"val": 2.7}, at_ms=2_000)
    stats.tick(10_000)
    assert stats.read() == later


def test_case_4_running_statistics():
    """Coral's figures, number by number."""
    running = Moments()
    means = []
    for number in (2.7, -1.7, 2.0):
        running = running.add(number)
        means.append(running.mean)
    assert means == pytest.approx([2.7, 0.5, 1.0])
    by_count = [Moments.of((2, 6, 1)[:count]) for count in (1, 2, 3)]
    assert [each.variance for each in by_count] == pytest.approx([0, 4, 14 / 3])
    assert by_count[1].sd == 2
    assert math.isnan(by_count[0].sample_sd)
    assert by_count[1].sample_sd == pytest.approx(2 * math.sqrt(2))
    assert [Moments.of((6, 2.5, 3, -1)[:n]).least for n in (1, 2, 3, 4)] == [6, 2.5, 2.5, -1]
    assert [Moments.of((6, 5.1, 6.01)[:n]).most for n in (1, 2, 3)] == [6, 6, 6.01]
    assert math.isnan(Moments().variance)
    assert math.isnan(Moments().sd)


def test_case_5_fsm(actor):
    """The table of Coral's page."""
    fsm = actor("fsm", key="size", table=TABLE, s0="normal")
    states = []
    for size in ("small", "x-large", "x-large", "large", "small", "small"):
        assert fsm.send({"size": size}) == []
        states.append(fsm.read()["s"])
    assert states == ["normal", "suspicious", "alarm", "alarm", "suspicious", "normal"]


def test_case_6_fsm_keeps_its_state(actor, misfits):
    """An unknown input and a missing key change nothing; a state without a row moves as s0."""
    table = {**TABLE, "alarm": {"small": "unknown"}}
    fsm = actor("fsm", key="size", table=table, s0="alarm")
    fsm.send({"size": "huge"})
    fsm.send({"other": "small"})
    assert fsm.read() == {"s": "alarm"}
    fsm = actor(
        "fsm", key="size", table={"normal": {"large": "normal", "odd": "unknown"}}, s0="normal"
    )
    fsm.send({"size": "odd"})
    assert fsm.read() == {"s": "unknown"}
    fsm.send({"size": "large"})
    assert fsm.read() == {"s": "normal"}
    assert misfits("fsm", key="size", table=TABLE, s0="none") == {"/s0"}


def numbered(*windows):
    """Windows of the events ``{"n": 1}`` and so on."""
    return [{"data": [{"n": number} for number in window]} for window in windows]


@pytest.mark.parametrize(
    ("number", "sliding", "count", "expected"),
    [
        (3, 3, 9, numbered((1, 2, 3), (4, 5, 6), (7, 8, 9))),
        (3, 1, 5, numbered((1, 2, 3), (2, 3, 4), (3, 4, 5))),
        (5, 2, 9, numbered((1, 2, 3, 4, 5), (3, 4, 5, 6, 7), (5, 6, 7, 8, 9))),
    ],
)
def test_case_13_windows_by_count(actor, number, sliding, count, expected):
    """Tumbling and sliding; the third is section 2.2's example of a window of five by two."""
    window = actor("window", method="count", number=number, sliding=sliding)
    found = [each for n in range(1, count + 1) for each in window.send({"n": n})]
    assert found == expected


@pytest.mark.parametrize(
    ("number", "sliding", "times", "until", "expected"),
    [
        (1000, 1000, range(0, 2100, 300), 2000, numbered((1, 2, 3, 4), (5, 6, 7))),
        (3000, 1000, range(500, 4000, 1000), 4000, numbered((1, 2, 3), (2, 3, 4))),
        (10_000, 1000, range(0, 1000, 300), 1000, []),
        (1000, 1000, [100, 5_100], 9_000, numbered((1,), (2,))),
    ],
)
def test_case_14_windows_by_time(actor, number, sliding, times, until, expected):
    """A window ends at its own time, and holds what came before that, however late it is asked."""
    found = []
    for late in (0, 10_000):
        window = actor("window", method="time", number=number, sliding=sliding)
        window.start(0)
        found = []
        for n, at_ms in enumerate(times, 1):
            if not late:
                found += window.tick(at_ms)
            window.send({"n": n}, at_ms=at_ms)
        found += window.tick(until)
        assert found == expected


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({"method": "invalid", "number": 3}, {"/method"}),
        ({"method": "count", "number": -3}, {"/number"}),
        ({"method": "count", "number": 4.42}, {"/number"}),
        ({"method": "count", "number": 3, "sliding": -3}, {"/sliding"}),
        ({"method": "time", "number": 3, "sliding": 3.42}, {"/sliding"}),
        ({"method": "count", "number": 3, "sliding": 4}, {"/sliding"}),
        ({"method": "count", "number": 10**6}, {"/number"}),
    ],
)
def test_case_15_windows_that_cannot_be(actor, misfits, params, wrong):
    """Each is refused; the slide is the size unless given."""
    assert misfits("window", **params) == wrong
    usual = actor("window", method="time", number=3)
    assert usual.read() == {"method": "time", "number": 3, "sliding": 3}


def generated(actor, given, **timer):
    """A generator that was started at 0."""
    generator = actor("generator", format=given, timer=timer)
    generator.start(0)
    return generator


def test_case_16_what_a_generator_makes(actor):
    """Numbers, texts, nested ones; a text that is no format is itself."""
    chance = {"field1": "N(100, 10)", "field2": "['a', 'b', 'c']", "field3": "U(100)"}
    odd = ["F(…)", "N(20.3)", "N(100.))25, 10.53)", "[]", "[[''a', 'b,, 'c']", "N(1e3, 1)"]
    given = {**chance, "deep": chance, "odd": odd}
    (found,) = generated(actor, given, rate=1, times=1).tick(0)
    for each in (found, found["deep"]):
        assert isinstance(each["field1"], float)
        assert each["field2"] in {"a", "b", "c"}
        assert 0 <= each["field3"] <= 100
    assert found["odd"] == odd
    many = generated(actor, chance, rate=1000, times=1000).tick(1_000)
    assert {each["field2"] for each in many} == {"a", "b", "c"}
    assert sum(each["field1"] for each in many) / 1000 == pytest.approx(100, abs=1)
    assert many == generated(actor, chance, rate=1000, times=1000).tick(1_000)


def test_case_17_when_a_generator_emits(actor, misfits):
    """Rate, times, delay; a restart goes on counting without a burst."""
    assert misfits("generator", format={}, timer={"rate": -20}) == {"/timer/rate"}
    assert misfits("generator", format={}, timer={"rate": "notAnInteger"}) == {"/timer/rate"}
    assert misfits("generator", format={}, timer={}) == {"/timer"}
    assert generated(actor, {}, rate=10, times=-100).tick(60_000) == []
    assert generated(actor, {}, rate=0).tick(60_000) == []
    assert len(generated(actor, {}, rate=100, times=3).tick(100)) == 3
    late = generated(actor, {}, rate=20, times=1, delay=3)
    assert (late.tick(2_999), late.tick(3_000)) == ([], [{}])
    shown = generated(actor, {}, rate=20, times=1, delay=-3000).read()
    assert (shown["delay"], shown["rate"], shown["times"]) == (0.0, 20.0, 1)
    steady = generated(actor, {}, rate=2)
    assert len(steady.tick(1_999)) == 4
    steady.start(60_000)
    assert len(steady.tick(60_499)) == 1
    assert steady.read()["count"] == 5


def test_a_generator_that_was_not_started_is_silent(actor):
    """Nothing is due before the runtime starts, and no event is taken ever."""
    generator = actor("generator", format={}, timer={"rate": 100})
    assert generator.tick(10_000) == []
    assert generator.send({}) is None


@pytest.mark.parametrize(
    ("count", "value", "outlier"), [(20, 50, False), (21, 4, False), (21, 50, True)]
)
def test_case_23_zscore(actor, count, value, outlier):
    """Above the mean by more than the score's deviations, of more than 20 numbers."""
    zscore = actor("zscore", field="val", score=6.1)
    found = zscore.send({"val": value}, count=count, avg=3, std=2)
    assert found == [{"val": value, "outlier": True}] * outlier


def test_a_zscore_without_its_values_fails(actor):
    """What was not collected, or is no number, is told; too few numbers are not."""
    zscore = actor("zscore", field="val", score=1)
    assert zscore.send({"val": 1}) is None
    assert zscore.send({"val": 1}, count=30, avg=None, std=1) is None
    assert zscore.send({"val": 1}, count=0, avg=None, std=None) == []
    assert zscore.send({"other": 1}, count=30, avg=1, std=1) is None


def test_case_24_group_by(actor):
    """A group per value, each with a state of its own; what names none goes to none."""
    stats = actor("stats", field="val")
    stats.kind = Grouped(stats.kind, "tag")
    stats.state = stats.kind.initial(stats.params)
    counts = []
    for tag in ("a", "a", "b", None, [], 1.5):
        stats.send({"tag": tag, "val": 1})
        counts.append(len(stats.read()["actors"]))
    assert counts == [1, 1, 2, 2, 2, 2]
    assert stats.read()["actors"]["a"]["count"] == 2
    assert stats.kind.read_for(stats.params, stats.state, {"tag": "b"})["count"] == 1
    assert stats.kind.read_for(stats.params, stats.state, {"tag": "new"}) == EMPTY
    assert stats.kind.read_for(stats.params, stats.state, {}) == {}
    stats.send({"tag": 1, "val": 1})
    stats.send({"tag": "1", "val": 1})
    assert stats.read()["actors"]["1"]["count"] == 2


def test_groups_have_timers_of_their_own(actor):
    """The first that is due is asked first; the others keep what they have."""
    window = actor("window", method="time", number=1000)
    window.kind = Grouped(window.kind, "tag")
    window.state = window.kind.initial(window.params)
    window.send({"tag": "a"}, at_ms=0)
    window.send({"tag": "b"}, at_ms=400)
    assert window.kind.due(window.params, window.state) == 1_000
    assert window.tick(1_000) == [{"data": [{"tag": "a"}]}]
    assert window.tick(1_400) == [{"data": [{"tag": "b"}]}]


def test_a_stateless_type_by_groups_keeps_nothing(actor):
    """Grouping only drops what names no group."""
    threshold = actor("threshold", key="val", threshold=1)
    threshold.kind = Grouped(threshold.kind, "tag")
    threshold.state = threshold.kind.initial(threshold.params)
    assert threshold.send({"tag": "a", "val": 2}) == [{"tag": "a", "val": 2}]
    assert threshold.send({"val": 2}) == []
    assert threshold.state is None


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1, 1), (5, 0, 7, 1)])
def test_snapshots_of_parts_combine(actor, sizes):
    """A snapshot of a whole range is what those of its parts combine to, by groups too."""
    events = [{"val": 1e9 + n % 7, "city": f"c{n % 3}", "tag": n % 2} for n in range(sum(sizes))]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    parts = [events[at : at + size] for at, size in zip(starts, sizes, strict=True)]
    stats = actor("stats", field="val")
    table = actor(
        "tabulate", dimensions=["city"], value="val", functions=["count", "sum", "min", "max"]
    )
    for each in (stats, table):
        for kind in (each.kind, Grouped(each.kind, "tag")):
            whole = kind.read(each.params, kind.snapshot(each.params, events))
            states = [kind.snapshot(each.params, part) for part in parts]
            combined = kind.read(each.params, kind.combine(each.params, states))
            assert flat(combined) == pytest.approx(flat(whole), rel=1e-7)


def flat(value, path=""):
    """Numbers by their paths, for comparing them approximately."""
    if isinstance(value, dict):
        return {k: v for name in value for k, v in flat(value[name], f"{path}/{name}").items()}
    if isinstance(value, list):
        return {
            k: v for at, each in enumerate(value) for k, v in flat(each, f"{path}/{at}").items()
        }
    return {f"{path}={value}": 0} if isinstance(value, str) else {path: value}


def test_a_snapshot_is_what_the_events_make_one_by_one(actor):
    """The state of a range is the state after its events."""
    events = [{"val": n / 3} for n in range(50)] + [{"other": 1}, {"val": 1e200}]
    stats = actor("stats", field="val")
    for event in events:
        stats.send(event)
    assert stats.kind.snapshot(stats.params, events) == stats.state


def test_tabulate(actor, misfits):
    """Cells by dimensions, shares when they are collected, and only what was asked for."""
    events = [
        {"city": "a", "kind": 1, "amount": 2},
        {"city": "a", "kind": 1, "amount": 4},
        {"city": "a", "kind": 2, "amount": "x"},
        {"city": "b", "kind": 1.00001, "amount": 6},
    ]
    shared = {"dimensions": ["city", "kind"], "value": "amount"}
    plain = actor("tabulate", **shared, functions=["count", "average", "sum"], normalize="none")
    for event in [*events, {"city": "a", "amount": 1}, {"city": "a", "kind": 1}]:
        assert plain.send(event) == [event]
    assert plain.read()["table"] == [
        {"city": "a", "kind": 1, "amount": {"count": 2, "average": 3.0, "sum": 6.0}},
        {"city": "a", "kind": 2, "amount": {"count": 1, "average": None, "sum": 0.0}},
        {"city": "b", "kind": 1, "amount": {"count": 1, "average": 6.0, "sum": 6.0}},
    ]
    for normalize, counts in (
        ("total", [0.5, 0.25, 0.25]),
        ("row", [2 / 3, 1 / 3, 1.0]),
        ("column", [2 / 3, 1.0, 1 / 3]),
    ):
        table = actor("tabulate", **shared, functions=["count"], normalize=normalize)
        for event in events:
            table.send(event)
        found = [row["amount"]["count"] for row in table.read()["table"]]
        assert found == pytest.approx(counts)
    silent = actor("tabulate", **shared, functions=["count"], passthrough=False)
    assert silent.send(events[0]) == []
    assert misfits("tabulate", **shared, functions=[]) == {"/functions"}
    assert misfits("tabulate", **shared, functions=["median"]) == {"/functions/0"}
    assert misfits("tabulate", **shared, functions=["sum", "sum"]) == {"/functions"}
    assert misfits("tabulate", dimensions=["a"], value="a", functions=["sum"], normalize="row") == {
        "/value",
        "/normalize",
    }


def test_numbers_with_a_large_common_part_keep_their_variance():
    """Where a sum of squares loses everything, the running one is right, in parts too."""
    numbers = [1e9 + n for n in (4, 7, 13, 16)]
    assert Moments.of(numbers).variance == 22.5
    joined = Moments.of(numbers[:1]).join(Moments.of(numbers[1:]))
    assert joined.variance == pytest.approx(22.5)
    assert Moments().join(joined) == joined


def test_a_window_of_time_is_bounded(actor):
    """Event 10,001 is a failure; the window stays as it was."""
    window = actor("window", method="time", number=1000)
    window.state = {"since": 0, "due": 1000, "events": [[0, {}]] * 10_000}
    assert window.send({}, at_ms=1) is None
    assert "10000 events" in window.result.failure


def test_each_trigger_leaves_the_state_that_it_was_given(actor):
    """States are shared by attempts: none is changed in place."""
    window = actor("window", method="count", number=3)
    before = window.state
    window.kind.trigger(window.params, before, {"n": 1}, Given())
    assert before == {"since": None, "due": None, "events": []}
