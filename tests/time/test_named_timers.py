"""Several timers of a key at one millisecond, and the microbatch's id: against plain Python."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atoll
from atoll import Map, start
from atoll.errors import StateError
from atoll.testing import TopologyTestDriver

ASKED = "user string, at long, name string, take boolean, n long"
FIRED = "user string, at long, name string, n long, batch long"


def ask(row, users, timers):
    """Sets or takes back a timer of a name."""
    assert timers.microbatch_id == row.batch
    if row.take:
        users[row.user] = users.get(row.user, 0) + timers.cancel(row.at, name=row.name)
    elif row.name is None:
        timers.at(row.at, row.n)
    else:
        timers.at(row.at, [row.n], name=row.name)


def fire(timer, users, timers):
    """Tells which it was."""
    n = timer.payload if timer.name is None else timer.payload[0]
    batch = timers.microbatch_id
    yield {"user": timer.key, "at": timer.time_ms, "name": timer.name, "n": n, "batch": batch}


def module_of():
    """Timers by the clock; rows know their microbatch's id."""
    module = atoll.Module("timers")
    asked = module.depot("asked", ASKED, partition_by="user", partitions=1)
    fired = module.depot("fired", FIRED, partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    taken = mb.pstate("taken", Map(str, int))
    rows = mb.source(asked, start_from=start.beginning()).with_microbatch_id("batch")
    rows.process(ask, key="user", states=[taken], on_timer=fire, emits=FIRED).append_to(fired)
    return module


ROUND = st.tuples(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 2),
            st.sampled_from([None, "", "x", "y"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["nothing", "fail", "restart", "rescale"]),
)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(ROUND, min_size=3, max_size=4))
def test_names_tell_timers_apart(rounds):
    """Set, replaced and taken back by key, time and name; over failed attempts and moves."""
    with TopologyTestDriver(module_of(), engine="inline", parallelism=2) as driver:
        begun = driver.clock.now_ms()
        waiting, fired, taken = {}, [], {}
        for number, (drawn, event) in enumerate(rounds):
            rows = [
                {
                    "user": user,
                    "at": begun + 1_000 * (number + 1) + at,
                    "name": name or None,
                    "take": take,
                    "n": 10 * number + n,
                }
                for n, (user, at, name, take) in enumerate(drawn)
            ]
            driver.depot("asked").append(rows)
            if event == "fail":
                driver.fail_next_attempt(after_work=True)
            elif event == "restart":
                driver.restart()
            elif event == "rescale":
                driver.cluster.add_worker(f"worker-{number}", 1)
            driver.run_until_idle()
            for row in rows:
                which = (row["at"], row["user"], row["name"] or "")
                if row["take"]:
                    found = waiting.pop(which, None) is not None
                    taken[row["user"]] = taken.get(row["user"], 0) + found
                else:
                    waiting[which] = row["n"]
            driver.advance(2)
            driver.run_until_idle()
            fired += [(*which, n) for which, n in sorted(waiting.items())]
            waiting = {}
        out = driver.depot("fired")
        found = out.read(0, 0, out.end_offsets()[0]).to_pylist()
        told = [(row["at"], row["user"], row["name"] or "", row["n"]) for row in found]
        assert sorted(told) == sorted(fired)
        for user in "ab":  # one key's in the order of time and name
            mine = [each for each in told if each[1] == user]
            assert mine == sorted(mine)
        assert driver.pstate("taken").get() == taken
        assert all(1 < row["batch"] <= driver.status()["committed"] for row in found)


def test_names_that_cannot_be():
    """A name is a text of its own."""
    module = module_of()
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("asked").append(
            [{"user": "a", "at": 1, "name": "", "take": False, "n": 1}],
        )
        with pytest.raises(atoll.AtollError, match="cannot name a timer"):
            driver.run_until_idle()
    assert StateError.code == "E-STATE"


def test_the_id_of_the_microbatch_is_a_column():
    """The same in a failed attempt and the next; refused in a query, which is of none."""
    module = atoll.Module("numbered")
    rows = module.depot("rows", "k string", partitions=1)
    out = module.depot("out", "k string, batch long", partitions=1)
    mb = module.microbatch("mb", vnode_count=1)
    told = mb.source(rows, start_from=start.beginning()).with_microbatch_id("batch")
    told.map(lambda row: row, emits="k string, batch long").append_to(out)
    asked = module.query("asked", k=str)
    for wrong in (asked.with_microbatch_id, asked.with_processing_time):
        with pytest.raises(atoll.AtollError, match="is no step of a query") as caught:
            wrong("n")
        assert "as a parameter" in caught.value.hint
    asked.returns()
    with TopologyTestDriver(module, engine="inline") as driver:
        for name in "ab":
            driver.depot("rows").append([{"k": name}])
            driver.fail_next_attempt(after_work=True)
            driver.run_until_idle()
        found = driver.depot("out").read(0, 0, 2).to_pylist()
        assert [row["batch"] for row in found] == [1, 2]
