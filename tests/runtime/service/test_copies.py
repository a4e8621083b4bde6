"""Copies with state: each instance has its own, and what becomes of it is said or refused."""

from __future__ import annotations

import pytest

from atoll.errors import ConflictError
from atoll.runtime.service.showing import actor_stats, runtime_stats


def counting(copies=1, instances=1, **distribution):
    """Statistics behind an entry point."""
    return {
        "name": "r",
        "actors": [
            {"name": "in", "type": "httpbroadcast"},
            {"name": "sum", "type": "stats", "params": {"field": "v"}, "copies": instances},
        ],
        "links": [{"from": "in", "to": "sum"}],
        "distribution": {"copies": copies, **distribution},
    }


def counts(runtimes, runtime, actor="sum"):
    """By copy and instance how many events it has counted."""
    running = runtimes.running(runtime)
    running.wait_all()
    shown = actor_stats(running, actor)["instances"]
    return {(each["copy"], each["instance"]): each["state"]["count"] for each in shown}


def send(runtimes, runtime, count, **more):
    """So many events, and wait for them."""
    running = runtimes.running(runtime)
    running.send("in", [{"v": at, **more} for at in range(count)])
    running.wait_all()


def test_n_copies_of_m_instances_have_each_a_state_of_their_own(runtimes):
    """Round robin over copies, then over the instances of each."""
    runtime = runtimes.start(runtimes.create(counting(2, 3)))
    send(runtimes, runtime, 12)
    assert counts(runtimes, runtime) == {
        (copy, instance): 2 for copy in (1, 2) for instance in (0, 1, 2)
    }
    stats = runtime_stats(runtimes.running(runtime))
    assert stats["totalMessages"] == 24
    assert [stats["copies"][copy]["totalMessages"] for copy in ("1", "2")] == [12, 12]


def test_events_of_one_key_stay_in_one_copy_in_order(runtimes):
    """By the field that the definition names."""
    runtime = runtimes.start(runtimes.create(counting(4, by="k")))
    for key in ("a", "b", "c", "d", "e"):
        send(runtimes, runtime, 3, k=key)
    found = counts(runtimes, runtime)
    assert sum(found.values()) == 15
    assert all(count % 3 == 0 for count in found.values())


@pytest.mark.parametrize("state", ["keep", "drop"])
def test_what_becomes_of_the_state_of_copies_that_go_must_be_said(runtimes, state):
    """Kept, it is there again with the copies; dropped, they begin anew."""
    runtime = runtimes.start(runtimes.create(counting(3)))
    send(runtimes, runtime, 6)
    with pytest.raises(ConflictError) as refused:
        runtimes.scale(runtime, 1)
    assert refused.value.context["choices"] == ["keep", "drop"]
    assert runtimes.find("r")[0].copies == 3
    runtime = runtimes.scale(runtime, 1, state)
    assert counts(runtimes, runtime) == {(1, 0): 2}
    send(runtimes, runtime, 4)
    runtime = runtimes.scale(runtime, 3)
    kept = 2 if state == "keep" else 0
    assert counts(runtimes, runtime) == {(1, 0): 6, (2, 0): kept, (3, 0): kept}
    send(runtimes, runtime, 3)
    assert sum(counts(runtimes, runtime).values()) == 9 + 2 * kept


def test_state_by_key_is_asked_for_when_copies_come_too(runtimes):
    """Keys find another copy then, and their state stays where it was."""
    runtime = runtimes.start(runtimes.create(counting(1, by="k")))
    with pytest.raises(ConflictError, match="state by key"):
        runtimes.scale(runtime, 2)
    assert runtimes.scale(runtime, 2, "keep").copies == 2


def test_a_generator_of_a_copy_that_joins_begins_and_the_others_go_on(runtimes):
    """Each copy has one of its own; a change of copies starts none anew."""
    definition = {
        "name": "r",
        "actors": [
            {
                "name": "gen",
                "type": "generator",
                "params": {"format": {"v": 1}, "timer": {"rate": 200, "times": 5}},
            },
            {"name": "sum", "type": "stats", "params": {"field": "v"}},
        ],
        "links": [{"from": "gen", "to": "sum"}],
    }
    runtime = runtimes.start(runtimes.create(definition))
    running = runtimes.running(runtime)
    running.app.topology("run").wait_processed(1)
    while counts(runtimes, runtime)[1, 0] < 5:
        pass
    runtime = runtimes.scale(runtime, 2)
    while counts(runtimes, runtime)[2, 0] < 5:
        pass
    assert counts(runtimes, runtime) == {(1, 0): 5, (2, 0): 5}
