"""Timers of keys: due by the plan's time, by time and key, the same in every attempt."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atoll
from atoll import Map, Struct, start
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

SECOND = 1_000
FIRED = "user string, at_ms long, payload string, seen long"


def remind(row, users, timers):
    """Counts a user's rows, and asks to be called as the row says."""
    users[row.user] = users.get(row.user, 0) + 1
    if row.after is not None:
        timers.at(timers.now_ms + row.after * SECOND, f"{row.user}{row.after}")
    if row.cancel is not None:
        timers.cancel(row.cancel)


def fire(timer, users, timers):
    """Tells what it was called with, and what the state was."""
    assert timers.now_ms >= timer.time_ms
    seen = users.get(timer.key, 0)
    yield {"user": timer.key, "at_ms": timer.time_ms, "payload": timer.payload, "seen": seen}


def reminding(vnodes=4, partitions=2, function=remind, on_timer=fire, key="user", **options):
    """A module with timers by processing time."""
    module = atoll.Module("timers")
    asked = module.depot(
        "asked", "user string, after long, cancel long", partition_by="user", partitions=partitions
    )
    fired = module.depot("fired", FIRED, partitions=1)
    mb = module.microbatch("mb", vnode_count=vnodes, **options)
    users = mb.pstate("users", Map(str, int))
    mb.source(asked, start_from=start.beginning()).process(
        function, key=key, states=[users], on_timer=on_timer, emits=FIRED
    ).append_to(fired)
    return module


def ask(user, after=None, cancel=None):
    """A record of ``asked``."""
    return {"user": user, "after": after, "cancel": cancel}


def read(driver, depot="fired"):
    """All records of a depot with one partition, in order."""
    there = driver.depot(depot)
    return there.read(0, 0, there.end_offsets()[0]).to_pylist()


def test_a_timer_runs_without_records_when_its_time_has_come():
    """Not earlier, and once."""
    with TopologyTestDriver(reminding(), engine="inline") as driver:
        now = driver.clock.now_ms()
        driver.depot("asked").append([ask("ann", 10), ask("bob", 5)])
        driver.run_until_idle()
        driver.advance(4.999)
        assert driver.run_until_idle() == []
        driver.advance(0.001)
        assert [each.records for each in driver.run_until_idle()] == [0]
        driver.advance(60)
        driver.run_until_idle()
        assert read(driver) == [
            {"user": "bob", "at_ms": now + 5_000, "payload": "bob5", "seen": 1},
            {"user": "ann", "at_ms": now + 10_000, "payload": "ann10", "seen": 1},
        ]
        driver.advance(60)
        assert driver.run_until_idle() == []


def test_timers_run_by_time_and_key_before_the_rows():
    """Also when all are due at once; rows of the same microbatch find what they left."""
    with TopologyTestDriver(reminding(vnodes=1), engine="inline", parallelism=1) as driver:
        driver.depot("asked").append([ask(user, s) for user, s in [("b", 2), ("a", 2), ("c", 1)]])
        driver.run_until_idle()
        driver.advance(10)
        driver.depot("asked").append([ask("a"), ask("a")])
        driver.run_until_idle()
        assert [(each["payload"], each["seen"]) for each in read(driver)] == [
            ("c1", 1),
            ("a2", 1),
            ("b2", 1),
        ]
        assert driver.pstate("users").get() == {"a": 3, "b": 1, "c": 1}


def test_a_timer_is_taken_back_or_replaced_by_key_and_time():
    """Those of other keys and times stay."""
    with TopologyTestDriver(reminding(), engine="inline") as driver:
        now = driver.clock.now_ms()
        driver.depot("asked").append([ask("a", 3), ask("a", 4), ask("b", 3), ask("b", 3)])
        driver.run_until_idle()
        driver.depot("asked").append([ask("a", cancel=now + 3_000), ask("b", cancel=now + 4_000)])
        driver.run_until_idle()
        driver.advance(10)
        driver.run_until_idle()
        assert sorted(each["payload"] for each in read(driver)) == ["a4", "b3"]


def test_a_failed_attempt_and_a_new_life_fire_what_the_plan_says():
    """Timers that are due meanwhile wait for the next microbatch."""
    with TopologyTestDriver(reminding(), engine="inline") as driver:
        driver.depot("asked").append([ask("a", 1), ask("b", 2)])
        driver.run_until_idle()
        driver.advance(1)
        driver.fail_next_attempt(after_work=True)
        assert [driver.step(), driver.step()] == ["prime", "failed"]
        driver.advance(30)
        driver.restart()
        driver.microbatch()
        assert [each["payload"] for each in read(driver)] == ["a1"]
        driver.run_until_idle()
        assert [each["payload"] for each in read(driver)] == ["a1", "b2"]


def again(timer, users, timers):
    """Sets itself twice more: for a time that has come already."""
    left = timer.payload if isinstance(timer.payload, int) else 2
    users[timer.key] = users.get(timer.key, 0) + 100
    if left:
        timers.at(timer.time_ms, left - 1)
    return ()


def test_a_timer_for_a_time_that_has_come_runs_in_the_next_microbatch():
    """So one microbatch always ends."""
    with TopologyTestDriver(reminding(on_timer=again), engine="inline") as driver:
        driver.depot("asked").append([ask("a", 1)])
        driver.run_until_idle()
        driver.advance(1)
        assert len(driver.run_until_idle()) == 3
        assert driver.pstate("users").get("a") == 301


def test_a_rollback_brings_timers_back():
    """They are state like any other, and run again."""
    with TopologyTestDriver(reminding(), engine="inline") as driver:
        driver.depot("asked").append([ask("a", 1)])
        driver.run_until_idle()
        driver.advance(5)
        driver.run_until_idle()
        driver.topology("mb").rollback(1, keep_appended=True)
        driver.topology("mb").resume()
        driver.run_until_idle()
        assert [each["payload"] for each in read(driver)] == ["a1", "a1"]


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 12)), max_size=4),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([1, 3, 8]),
    st.integers(1, 3),
    st.sets(st.integers(0, 8), max_size=3),
)
def test_every_timer_fires_once_at_its_time(stretches, vnodes, partitions, failing):
    """Whatever vnodes, partitions, actors and failures there are."""
    expected = set()
    with TopologyTestDriver(
        reminding(vnodes, partitions), engine="inline", parallelism=3
    ) as driver:
        for number, stretch in enumerate([*stretches, [], []]):
            now = driver.clock.now_ms()
            driver.depot("asked").append([ask(user, after) for user, after in stretch])
            expected.update((user, now + after * SECOND) for user, after in stretch)
            if number in failing:
                driver.fail_next_attempt(after_work=True)
            if number == 2:
                driver.app.cluster.resize("mb", 2)
            driver.run_until_idle()
            told = {(each["user"], each["at_ms"]) for each in read(driver)}
            assert told == {each for each in expected if each[1] <= driver.clock.now_ms()}
            driver.advance(7)
        assert len(read(driver)) == len(expected)


def expire(row, last, timers):
    """Keeps a user's last time; asks to be called when the user has been away for long."""
    before = last.get(row.user)
    if before is not None:
        timers.cancel(before + 30 * SECOND)
    last[row.user] = row.at
    timers.at(dt.datetime.fromtimestamp(row.at / 1000 + 30, tz=dt.UTC))


def gone(timer, last, timers):
    """Forgets the user."""
    del last[timer.key]


def test_timers_by_event_time_go_by_the_watermark():
    """However late the clock is."""
    module = atoll.Module("away")
    seen = module.depot("seen", "user string, at long", partition_by="user", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    last = mb.pstate("last", Map(str, int))
    mb.source(seen, start_from=start.beginning()).with_watermark("at", "5 seconds").process(
        expire, key="user", states=[last], on_timer=gone, timers="event"
    )
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("seen").append(
            [{"user": u, "at": s * SECOND} for u, s in [("a", 1), ("b", 9)]]
        )
        driver.run_until_idle()
        driver.advance(1_000)
        assert driver.run_until_idle() == []
        driver.depot("seen").append([{"user": "a", "at": 20 * SECOND}, {"user": "b", "at": 43_999}])
        driver.run_until_idle()
        assert driver.pstate("last").get() == {"a": 20_000, "b": 43_999}
        driver.depot("seen").append([{"user": "c", "at": 55 * SECOND}])
        driver.fail_next_attempt(after_work=True)
        driver.run_until_idle()
        assert driver.pstate("last").get() == {"b": 43_999, "c": 55_000}


def picky(timer, users, timers):
    """Fails for one user."""
    users[timer.key] = -1
    if timer.key == "bad":
        raise ValueError("not this one")
    return ()


def test_a_timer_that_raises_goes_to_the_dead_letter_depot():
    """What it wrote is taken back, and it does not run again."""
    module = atoll.Module("timers")
    asked = module.depot("asked", "user string, after long, cancel long", partitions=1)
    module.dead_letter_depot("dead")
    mb = module.microbatch("mb", vnode_count=2, dead_letter=module.depots["dead"])
    users = mb.pstate("users", Map(str, int))
    mb.source(asked, start_from=start.beginning()).process(
        remind, key="user", states=[users], on_timer=picky
    )
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("asked").append([ask("bad", 1), ask("good", 1)])
        driver.run_until_idle()
        driver.advance(2)
        driver.run_until_idle()
        assert driver.pstate("users").get() == {"bad": 1, "good": -1}
        (dead,) = read(driver, "dead")
        assert "not this one" in dead["error"]
        assert '"bad"' in dead["row"]


def test_timers_are_private_state_of_the_step():
    """No client reads them, and they are a fragment's together with the states."""
    with TopologyTestDriver(reminding(), engine="inline") as driver:
        assert driver.app.pstates() == ["users"]
        (process,) = [f for f in driver.app.cluster.info().fragments if f.kind != "source"]
        assert process.pstates == ("users", "_mb-timers-users")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"on_timer": lambda timer: None}, "on_timer calls"),
        ({"on_timer": fire, "timers": "wall"}, "timers='wall' is not known"),
        ({"on_timer": fire, "timers": "event"}, "need a watermark"),
        ({"on_timer": fire, "function": lambda row, users: None}, "with 3 arguments"),
    ],
)
def test_mistakes_are_errors_on_their_own_line(keywords, message):
    """With the place in the user's file."""
    module = atoll.Module("m")
    mb = module.microbatch("mb")
    stream = mb.source(module.depot("asked", "user string, after long, cancel long"))
    users = mb.pstate("users", Map(str, int))
    function = keywords.pop("function", remind)
    with pytest.raises(DeclarationError, match=message) as error:
        stream.process(function, key="user", states=[users], **keywords)
    assert str(error.value.context["declared"]).startswith("test_timers.py:")


def test_a_step_without_a_key_has_no_timers():
    """They belong to one."""
    module = atoll.Module("m")
    mb = module.microbatch("mb")
    stream = mb.source(module.depot("asked", "user string, after long, cancel long"))
    whole = mb.pstate("whole", Struct(n=int))
    with pytest.raises(DeclarationError, match="timers belong to a key"):
        stream.process(remind, states=[whole], on_timer=fire)
