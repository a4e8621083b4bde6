"""All that goes by time at once, in lives that end between any two steps, with local state lost."""

from __future__ import annotations

import shutil

import pytest

import atoll
from atoll import Map, agg, start
from atoll.testing import TopologyTestDriver

CLICK = "user string, at long, ring long"
ENDED = "user string, window_start long, window_end long, n long"


def ring(row, users, timers):
    """Counts, and asks to be called at the time that the row says."""
    users[row.user] = users.get(row.user, 0) + 1
    timers.at(row.ring, users[row.user])


def ring_after(row, users, timers):
    """The same some seconds of event time after the row."""
    users[row.user] = users.get(row.user, 0) + 1
    timers.at(row.at + 12_000, users[row.user])


def rang(timer, users, timers):
    """Tells which timer it was."""
    yield {"user": timer.key, "ring": timer.time_ms, "n": timer.payload}


def build():
    """Windows, sessions, timers of both kinds and a tick."""
    module = atoll.Module("lives")
    clicks = module.depot("clicks", CLICK, partition_by="user", partitions=2)
    outs = {
        name: module.depot(name, ddl, partitions=1)
        for name, ddl in {
            "windows": ENDED,
            "sessions": ENDED,
            "late": CLICK,
            "by_clock": "user string, ring long, n long",
            "by_event": "user string, ring long, n long",
        }.items()
    }
    options = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 3}
    mb = module.microbatch("mb", vnode_count=2, options=options)
    ticks = mb.pstate("ticks", Map(int, int))
    rows = mb.source(clicks, start_from=start.beginning()).with_watermark("at", "5 seconds")
    windows, late = rows.window(
        "at", "10 seconds", "5 seconds", allowed_lateness="3 seconds", split_late=True
    )
    windows.aggregate_windows("user", n=agg.count()).append_to(outs["windows"])
    late.append_to(outs["late"])
    sessions = rows.session_window("at", "4 seconds")
    sessions.aggregate_windows("user", n=agg.count()).append_to(outs["sessions"])
    for kind, name in (("processing", "by_clock"), ("event", "by_event")):
        users = mb.pstate(f"users_{kind}", Map(str, int))
        rows.process(
            ring if kind == "processing" else ring_after,
            key="user",
            states=[users],
            on_timer=rang,
            timers=kind,
            emits="user string, ring long, n long",
        ).append_to(outs[name])
    mb.source(module.tick("tick", "2 seconds")).aggregate(ticks["tick"], agg.count())
    return module


def live(root, disturb):
    """Everything that came out of some rounds of clicks; ``disturb`` is called after each step."""
    module = build()
    behind = {2: 14_000, 4: 30_000}  # some change a closed window, some are too late
    with TopologyTestDriver(module, engine="inline", root=root) as driver:
        begin = driver.clock.now_ms()
        driver.advance(0.3)
        for number in range(6):
            clicks = [
                {
                    "user": "abc"[(number + each) % 3],
                    "at": number * 9_000 + each * 1_700 - behind.get(each, 0),
                    "ring": begin + number * 1_507 + each * 701,  # no two alike
                }
                for each in range(5)
            ]
            driver.depot("clicks").append(clicks)
            driver.advance(1.5)
            steps = 0
            while driver.step() != "idle":
                steps += 1
                disturb(driver, steps)
        outs = ("windows", "sessions", "late", "by_clock", "by_event")
        found = {
            name: sorted(
                tuple(each.values())
                for each in driver.depot(name)
                .read(0, 0, driver.depot(name).end_offsets()[0])
                .to_pylist()
            )
            for name in outs
        }
        found["ticks"] = driver.pstate("ticks").get()
        found["time"] = driver.status()["time"]["watermarks"], driver.status()["time"]["dropped"]
        return found


def nothing(_driver, _steps):
    """The undisturbed life."""


def die(driver, steps):
    """A new life after every third step, so after each of the five."""
    if steps % 3 == 1:
        driver.restart()


def lose(driver, steps):
    """A new life now and then, on a machine that has no local state."""
    if steps % 4 == 2:
        driver.cluster.kill()
        shutil.rmtree(driver.cluster.root / "local")
        driver.app = driver.cluster.deploy(driver._module)


def fail(driver, steps):
    """Every attempt fails once after it has done its work."""
    if steps % 5 == 1:
        driver.fail_next_attempt(after_work=True)


def move(driver, steps):
    """Another number of actors, again and again."""
    if steps % 5 == 0:
        driver.app.cluster.resize("mb", 1 + steps // 5 % 2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What comes out of a life in which nothing happens."""
    return live(tmp_path_factory.mktemp("undisturbed"), nothing)


def test_the_undisturbed_life_has_a_bit_of_everything(undisturbed):
    """Else the others would show nothing."""
    assert all(undisturbed.values())
    assert len(undisturbed["windows"]) > len({each[:3] for each in undisturbed["windows"]})
    assert sum(undisturbed["time"][1].values()) > 0


@pytest.mark.parametrize("disturb", [die, lose, move], ids=lambda each: each.__name__)
def test_a_disturbed_life_gives_the_same(undisturbed, tmp_path, disturb):
    """Windows, sessions, late rows, timers, ticks, watermarks and counts."""
    assert live(tmp_path, disturb) == undisturbed


def test_failing_attempts_change_nothing_but_when_things_happen(undisturbed, tmp_path):
    """The delay before another attempt is time that passes, so the clock's timers come earlier."""
    found = live(tmp_path, fail)
    by_clock, ticks = found.pop("by_clock"), found.pop("ticks")
    expected = dict(undisturbed)
    assert set(expected.pop("by_clock")) <= set(by_clock)
    assert len(set(by_clock)) == len(by_clock)
    assert set(ticks.values()) == {1}
    assert expected.pop("ticks")
    assert found == expected
