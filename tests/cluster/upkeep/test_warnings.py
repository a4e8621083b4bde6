"""What is wrong with a module that runs all the same: it is told while it can still be mended."""

from __future__ import annotations

import datetime as dt
import shutil
import time

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.cluster.upkeep import warnings as cluster_warnings
from atoll.fsck.root import check_root
from atoll.microbatch.commits import recovery
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.recovery import RecoveryCheck
from atoll.microbatch.control.warnings import clock_warning
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver, VirtualClock

INTERVAL = "topology.recovery.check.interval.seconds"


def shop(every=None):
    """Sums by key, with no checkpoint unless asked for; a tick where wanted."""
    module = atoll.Module("shop")
    orders = module.depot("orders", "k long, v long", partitions=2, partition_by="k")
    mb = module.microbatch("mb", vnode_count=4, options={INTERVAL: 1})
    sums = mb.pstate("sums", Map(int, int))
    mb.source(orders, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    if every:
        ticks = mb.pstate("ticks", int, initial=0)
        mb.source(module.tick("each", every)).aggregate(ticks, agg.count())
    return module


def append(driver, count, value=1):
    """Microbatches of all keys each."""
    for _ in range(count):
        driver.depot("orders").append([{"k": key, "v": value} for key in range(20)])
        driver.run_until_idle()


def log_of(root, number):
    """The file of the incremental log of a microbatch."""
    (path,) = (root / "shop/mb/logs/sums").glob(f"{number:020d}*")
    return path


def until(condition, seconds=20):
    """Wait for what a thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["log", "short log", "checkpoint", "commit"])
def test_a_file_that_is_lost_is_told_and_a_checkpoint_saves_the_state(tmp_path, kind):
    """The whole way: told, checkpoint, local stores lost as well, the state is right.

    The checkpoint of vnodes that did not change since is written anew as well.
    """
    with TopologyTestDriver(shop(), root=tmp_path, parallelism=1, engine="inline") as driver:
        append(driver, 2)
        topology = driver.app.topology("mb")
        if kind == "checkpoint":
            topology.checkpoint()
        last = latest_commit(LocalStore(tmp_path), "shop", "mb").id
        path = {
            "log": log_of(tmp_path, 1),
            "short log": log_of(tmp_path, 1),
            "commit": tmp_path / f"shop/mb/commits/{1:020d}",
            "checkpoint": next(iter(tmp_path.glob("shop/mb/checkpoints/sums/*")), None),
        }[kind]
        assert topology.status()["warnings"] == []
        path.write_bytes(b"x") if kind == "short log" else path.unlink()
        warnings = driver.app._warnings
        warnings.look(0)
        warnings.look(1)
        (warning,) = topology.status()["warnings"]
        assert warning["code"] == "E-DAMAGE"
        assert "4 vnodes of sums" in warning["message"]
        assert "atoll checkpoint shop mb" in warning["hint"]
        assert path.relative_to(tmp_path).as_posix() in warning["context"]["files"]
        assert topology.checkpoint() == last + 1
        assert topology.status()["warnings"] == []
        append(driver, 3)
    shutil.rmtree(tmp_path / "local")
    assert check_root(tmp_path).is_sound
    with TopologyTestDriver(shop(), root=tmp_path, parallelism=1, engine="inline") as driver:
        assert driver.pstate("sums").get() == dict.fromkeys(range(20), 5)
        append(driver, 1)
        assert driver.pstate("sums").get() == dict.fromkeys(range(20), 6)


def test_a_running_module_notices_by_itself_and_says_when_it_is_over(tmp_path, caplog):
    """Log, status; a file put back is no longer missed. Segments of depots count too."""
    with LocalCluster(tmp_path, parallelism=1, engine="inline") as cluster:
        app = cluster.deploy(shop())
        app.depot("orders").append([{"k": key, "v": 1} for key in range(20)])
        topology = app.topology("mb")
        topology.wait_processed(20)
        segment = max((tmp_path / "shop/depots/orders/segments").iterdir())
        path, aside = log_of(tmp_path, 1), tmp_path / "aside"
        path.rename(aside)
        segment.rename(tmp_path / "segment")
        until(lambda: len(topology.status()["warnings"]) == 2)
        messages = [each["message"] for each in topology.status()["warnings"]]
        assert "1 files that recovery needs are lost" in messages[0]
        assert messages[1].startswith("depot 'orders' has lost 1 segments")
        aside.rename(path)
        (tmp_path / "segment").rename(segment)
        until(lambda: not topology.status()["warnings"])
    said = [record.getMessage() for record in caplog.records]
    assert any("recovery needs are lost" in each for each in said)
    until(lambda: any("is over" in record.getMessage() for record in caplog.records))


def test_what_no_recovery_needs_is_not_missed(tmp_path):
    """A log that a checkpoint covers: it is fsck's business, and no reason to alarm anybody."""
    with TopologyTestDriver(shop(), root=tmp_path, parallelism=1, engine="inline") as driver:
        append(driver, 2)
        driver.app.topology("mb").checkpoint()
        log_of(tmp_path, 1).unlink()
        assert driver.app._warnings.check("mb") == {}
        assert driver.app.topology("mb").status()["warnings"] == []


def test_a_look_goes_on_where_the_last_one_stopped(tmp_path):
    """So many files each time; after enough looks all were looked at."""
    with TopologyTestDriver(shop(), root=tmp_path, parallelism=1, engine="inline") as driver:
        append(driver, 8)
        log_of(tmp_path, 6).unlink()
        loop = driver.app._loops["mb"]
        check = RecoveryCheck(LocalStore(tmp_path), "shop", "mb", lambda: loop.published)
        found = [len(check.look(4)) for _ in range(8)]
        assert found == sorted(found)
        assert (found[0], found[-1]) == (0, 1)


def test_what_was_dropped_while_it_was_looked_for_is_forgotten(tmp_path, monkeypatch):
    """It never comes back, so each look would go through all vnodes because of it."""
    module = shop()
    options = {"pstate.checkpoint.interval.commits": 1, "pstate.history.seconds": 0}
    module.topologies["mb"].options |= options
    with TopologyTestDriver(module, root=tmp_path, parallelism=1, engine="inline") as driver:
        append(driver, 3)
        loop = driver.app._loops["mb"]
        before = loop.published
        append(driver, 8)
        assert loop.published.floor > before.id
        commits = iter([before])
        check = RecoveryCheck(
            LocalStore(tmp_path), "shop", "mb", lambda: next(commits, loop.published)
        )
        assert check.look(None) == ()
        monkeypatch.setattr(recovery, "vnodes_needing", lambda *_: pytest.fail("asked again"))
        assert check.look(None) == ()


def test_a_clock_that_was_ahead_is_told_with_what_waits_and_how_long(caplog):
    """Ticks stand still until the clock catches up; then the warning is over."""
    clock = VirtualClock()
    with TopologyTestDriver(shop(every="1 second"), engine="inline", clock=clock) as driver:
        warnings, topology = driver.app._warnings, driver.app.topology("mb")

        def ticks(seconds):
            driver.advance(seconds)
            driver.run_until_idle()
            warnings.look(0)
            return driver.pstate("ticks").get()

        assert ticks(1) == 1
        assert topology.status()["warnings"] == []
        before = clock.now()
        assert ticks(365 * 86_400) == 2
        assert topology.status()["warnings"] == []
        clock._now_ms = round(before.timestamp() * 1000)
        assert ticks(1) == 2
        (warning,) = topology.status()["warnings"]
        assert warning["code"] == "W-CLOCK-BEHIND"
        assert "364 days 23 hours" in warning["message"]
        until = before + dt.timedelta(days=365)
        assert warning["context"] == {"until": until.isoformat(), "waits": "tick 'each'"}
        assert topology.status()["time"]["clock_behind_ms"] == (365 * 86_400 - 1) * 1000
        assert ticks(1) == 2
        assert sum("stands still" in each.getMessage() for each in caplog.records) == 1
        driver.advance(365 * 86_400)
        assert ticks(1) == 3
        assert topology.status()["warnings"] == []
        assert "is over" in caplog.records[-1].getMessage()


def test_a_rollback_to_before_the_clock_was_ahead_helps():
    """As the warning says."""
    clock = VirtualClock()
    with TopologyTestDriver(shop(every="1 second"), engine="inline", clock=clock) as driver:
        topology = driver.app.topology("mb")
        driver.advance(1)
        driver.run_until_idle()
        good, before = topology.status()["committed"], clock.now()
        driver.advance(86_400)
        driver.run_until_idle()
        clock._now_ms = round(before.timestamp() * 1000)
        assert "roll back" in topology.status()["warnings"][0]["hint"]
        topology.rollback(good)
        topology.resume()
        driver.advance(1)
        driver.run_until_idle()
        assert topology.status()["warnings"] == []
        assert driver.pstate("ticks").get() == 2


@pytest.mark.parametrize("behind", [0, 1_000])
def test_a_clock_that_is_set_back_a_little_is_no_matter(behind):
    """It is slewed every day."""
    assert clock_warning(10_000, 10_000 - behind, []) is None
    told = clock_warning(10_000, 10_000 - behind - 1_001, ["tick 'each'"])
    assert told.context == {"until": "1970-01-01T00:00:10+00:00", "waits": "tick 'each'"}


def test_two_threads_may_tell_at_once_what_is_over(monkeypatch):
    """The one that looks each second, and who asked for a checkpoint; each is told once."""
    with TopologyTestDriver(shop(), engine="inline") as driver:
        warnings, told = driver.app._warnings, []
        warnings._told.update({("mb", "E-DAMAGE", depot): "lost" for depot in ("", "a", "b")})

        class Log:
            def warning(self, *_, code, **__):
                told.append(code)
                warnings._tell("mb")  # as the other one does in between

        monkeypatch.setattr(cluster_warnings, "_log", Log())
        warnings._tell("mb")
        assert told == ["E-DAMAGE"] * 3


def test_what_waits_for_the_clock_is_named():
    """Timers by processing time, and retention by age."""
    module = atoll.Module("waits")
    words = module.depot("words", "word string", partition_by="word", retain_seconds=86_400)
    mb = module.microbatch("mb", vnode_count=1)
    seen = mb.pstate("seen", Map(str, int))

    def later(row, seen, timers):
        timers.at(timers.now_ms + 5_000, "later")

    def fired(timer, seen, timers):
        seen[timer.key] = 1

    rows = mb.source(words)
    rows.process(later, key="word", states=[seen], on_timer=fired)
    clock = VirtualClock()
    with TopologyTestDriver(module, engine="inline", clock=clock) as driver:
        driver.depot("words").append({"word": "a"})
        driver.run_until_idle()
        clock._now_ms -= 3_600_000
        (warning,) = driver.app.topology("mb").status()["warnings"]
        assert warning["context"]["waits"] == (
            "timers and windows by processing time, the retention by age of depot 'words'"
        )
        assert "1 hour" in warning["message"]
