"""Holds what a definition means, by the interpreter: order, collect, modes of state, timers.

Acceptance cases 21 and 27 as far as they are pure.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from random_runtimes import random_definition, random_events

from atoll.runtime.definition.read import check_definition, read_definition
from atoll.runtime.interpreter import Interpreter


def runtime(*actors, links=None, copy=1):
    """A runtime of these actors, linked in their order unless told otherwise."""
    names = [actor["name"] for actor in actors]
    pairs = links or list(pairwise(names))
    joined = [{"from": source, "to": target} for source, target in pairs]
    whole = {"name": "r", "actors": list(actors), "links": joined}
    return Interpreter(read_definition(whole), copy)


def actor(name, kind, more=None, **params):
    """An actor of a definition."""
    return {"name": name, "type": kind, "params": params, **(more or {})}


SOURCE = actor("in", "httpbroadcast")
STATS = actor("stats", "stats", field="val")


def collecting(*entries, formula="avg"):
    """A function that collects from its siblings."""
    return actor(
        "out", "function", {"collect": list(entries)}, function=formula, outputfield="found"
    )


AVG = {"alias": "avg", "from": "stats", "field": "avg"}


def test_case_21_collect_a_field():
    """68 and 16 have the mean 42 and the count 2; an alias that cannot be answered is a failure."""
    count = {"alias": "count", "from": "stats", "field": "count"}
    run = runtime(
        SOURCE,
        STATS,
        collecting(AVG, count, formula="avg + count"),
        links=[("in", "stats"), ("in", "out")],
    )
    run.send("in", {"val": 68})
    run.send("in", {"val": 16})
    assert run.emitted["out"] == [{"found": 69.0}, {"found": 44.0}]
    assert run.read("stats") == {"count": 2, "avg": 42.0, "sd": 26.0, "min": 16.0, "max": 68.0}


def test_case_21_collect_an_answer():
    """A query is answered by the sibling's own trigger, and changes nothing there."""
    ask = {"alias": "row", "from": "cities", "data": {"city": "ghent"}}
    cities = actor("cities", "lookup", key="city", function="check", lookup={"ghent": {"n": 5}})
    run = runtime(SOURCE, cities, collecting(ask, formula="row.n + 1"), links=[("in", "out")])
    run.send("in", {})
    assert run.emitted["out"] == [{"found": 6}]
    assert run.emitted["cities"] == []


def test_case_21_what_cannot_be_answered_is_a_failure():
    """A zscore without what it collects processes nothing; a formula without an alias, too."""
    entries = [
        {"alias": alias, "from": "stats", "field": field}
        for alias, field in (("count", "count"), ("avg", "avg"), ("std", "sd"))
    ]
    zscore = actor("out", "zscore", {"collect": entries}, field="val", score=1)
    grouped = {**STATS, "group": {"by": "tag"}}
    run = runtime(SOURCE, grouped, zscore, links=[("in", "stats"), ("in", "out")])
    run.send("in", {"val": 3})
    assert run.failures["out"] == ["nothing was collected for avg, count, std"]


def test_collecting_from_a_group():
    """What is collected of a grouped sibling is of the event's own group."""
    run = runtime(
        SOURCE,
        {**STATS, "group": {"by": "tag"}},
        collecting(AVG),
        links=[("in", "stats"), ("in", "out")],
    )
    for tag, val in (("a", 1), ("b", 10), ("a", 3)):
        run.send("in", {"tag": tag, "val": val})
    assert run.emitted["out"] == [{"found": 1.0}, {"found": 10.0}, {"found": 2.0}]


def test_the_order_of_the_definition_decides_what_is_collected():
    """A sibling that stands before has taken the same event, one that stands behind has not."""
    links = [("in", "stats"), ("in", "out")]
    run = runtime(SOURCE, collecting(AVG), STATS, links=links)
    run.send("in", {"val": 5})
    run.send("in", {"val": 7})
    assert run.emitted["out"] == [{"found": 5.0}]


def test_case_27_a_generator_and_a_log():
    """Ten events in a second, ten lines, each with a key of its own."""
    run = runtime(
        actor("made", "generator", format={"a": "constant"}, timer={"rate": 10, "times": 10}),
        actor("log", "log", file="a.jsonl"),
    )
    run.advance(10_000)
    assert run.effects["log"] == []
    run.start(10_000)
    run.advance(13_000)
    effects = run.effects["log"]
    assert [each.request["line"] for each in effects] == ['{"a":"constant"}'] * 10
    assert len({each.key for each in effects}) == 10


def test_instances_take_turns():
    """Each has a state of its own; snapshots replace them all."""
    run = runtime(SOURCE, {**STATS, "copies": 3})
    for val in range(7):
        run.send("in", {"val": val})
    assert [run.read("stats", at)["count"] for at in range(3)] == [3, 2, 2]
    run.offer("stats", run.states("stats")[0])
    assert [run.read("stats", at)["avg"] for at in range(3)] == [3.0] * 3


def collect_local(update, *, local):
    """A stats with collect-local."""
    modes = {"calc-local": local, "collect-local": {"update": update}}
    return runtime(SOURCE, {**STATS, "state": modes})


@pytest.mark.parametrize(
    ("update", "local", "expected"),
    [
        ({"event-count": 3}, False, [0, 0, 3, 3, 3, 3, 3]),
        ({"event-count": 3}, True, [1, 2, 3, 4, 5, 3, 4]),
        ({"sliding-window": {"size": 5, "slide": 2}}, False, [0, 0, 0, 0, 5, 5, 5]),
        ({"sliding-window": {"size": 3, "slide": 3}}, False, [0, 0, 3, 3, 3, 3, 3]),
    ],
)
def test_collect_local_by_events(update, local, expected):
    """The state is computed of the list and replaces what calc-local kept."""
    run = collect_local(update, local=local)
    counts = []
    for val in range(7):
        run.send("in", {"val": val})
        counts.append(run.read("stats")["count"])
    assert counts == expected


def test_collect_local_slides_over_the_last_events():
    """Section 2.2's example: abcde, cdefg, efghi."""
    run = collect_local({"sliding-window": {"size": 5, "slide": 2}}, local=False)
    means = []
    for val in range(9):
        run.send("in", {"val": val})
        means.append(run.read("stats")["avg"])
    assert means[4::2] == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"duration": {"seconds": 10}}, [0, 2, 2, 1, 0]),
        (
            {"sliding-window": {"size": 20, "slide": 10, "units": "seconds"}},
            [0, 2, 2, 3, 1],
        ),
    ],
)
def test_collect_local_by_time(update, expected):
    """The window moves on with time, however many events there are."""
    run = collect_local(update, local=False)
    run.start(0)
    counts = []
    for at_ms, events in ((5_000, 2), (10_000, 0), (15_000, 1), (20_000, 0), (30_000, 0)):
        run.advance(at_ms)
        counts.append(run.read("stats")["count"])
        for _ in range(events):
            run.send("in", {"val": 1}, at_ms)
    assert counts == expected


def test_a_timeout_puts_the_state_back():
    """Coral's first line had it for stats; here every state that may be lost has it."""
    run = runtime(SOURCE, {**STATS, "timeout": {"duration": 2, "mode": "continue"}})
    run.send("in", {"val": 1}, 1_000)
    run.advance(2_999)
    assert run.read("stats")["count"] == 1
    run.advance(3_000)
    assert run.read("stats")["count"] == 0


def test_what_the_engine_answers_is_passed_on():
    """An effect's outcome comes back as an event of the actor that asked for it."""
    params = {"database": "d", "statement": "select 1"}
    run = runtime(SOURCE, actor("sql", "sql", **params), actor("log", "log"))
    run.send("in", {})
    (effect,) = run.effects["sql"]
    run.answer("sql", effect, {"rows": [{"1": 1}]})
    assert run.emitted["sql"][0]["data"] == [{"1": 1}]
    assert len(run.effects["log"]) == 1


def test_a_shunt_answers_and_emits_nothing():
    """The state changes as by any event; nobody else sees it."""
    run = runtime(actor("window", "window", method="count", number=2), STATS)
    assert run.shunt("window", {"val": 1}).emitted == ()
    assert run.shunt("window", {"val": 2}).emitted == ({"data": [{"val": 1}, {"val": 2}]},)
    assert run.emitted["window"] == []
    assert run.read("stats")["count"] == 0


@pytest.mark.parametrize("seed", range(60))
def test_random_runtimes_are_right_and_run_alike(seed):
    """Definitions made by chance are read, and two runs of one give the same."""
    data = random_definition(seed, copies=3)
    definition, problems = check_definition(data)
    assert problems == []
    assert set(definition.order) == {each["name"] for each in data["actors"]}
    runs = [Interpreter(definition) for _ in range(2)]
    for run in runs:
        run.start()
        for event in random_events(seed, 60):
            run.send("alpha", event)
    first, second = runs
    assert first.emitted == second.emitted
    assert first.failures == second.failures
    assert all(first.states(name) == second.states(name) for name in definition.order)
    assert sum(map(len, first.emitted.values())) + sum(map(len, first.failures.values())) > 0
