"""The life of runtimes: what a restart brings back, wherever the process before ended."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
from waiting import until

from atoll.cluster.local import LocalCluster
from atoll.errors import ConflictError, NotFoundError, WaitTimeoutError
from atoll.runtime.service import known
from atoll.runtime.service.registry import RuntimeChange
from atoll.runtime.service.running import RunningRuntime
from atoll.runtime.service.runtimes import Runtimes


def opened(cluster):
    """The runtimes of a root, as the next process finds them."""
    found = Runtimes(cluster)
    found.open()
    return found


def messages(runtimes, name):
    """How many events a runtime has taken, once none wait."""
    running = runtimes.running(runtimes.find(name)[0])
    running.wait_all()
    counted = running.counters().values()
    return sum(each["low"].get("json", 0) for each in counted if "low" in each)


def test_a_restart_brings_back_what_ran(tmp_path, definition):
    """Each status as it was; a deleted one stays away, and its name too."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        first = opened(cluster)
        ran, rested, made, gone = (first.create({**definition, "name": n}) for n in "rsmg")
        ran = first.start(ran)
        first.running(ran).send("low", [{"v": 30}] * 5)
        rested = first.start(rested)
        first.running(rested).send("low", [{"v": 30}] * 3)
        first.stop(rested)
        first.delete(gone)
        module = gone.module
    with LocalCluster(tmp_path, engine="inline") as cluster:
        second = opened(cluster)
        statuses = {each.name: each.status for each in second}
        assert statuses == {"r": "running", "s": "stopped", "m": "created"}
        assert second.find("r")[0].id == ran.id
        assert messages(second, "r") == 5
        second.running(second.find("r")[0]).send("low", [{"v": 30}])
        assert messages(second, "r") == 6
        assert sum(each["low"]["json"] for each in second.running(rested).counters().values()) == 3
        with pytest.raises(ConflictError, match="is stopped"):
            second.running(second.find("s")[0]).send("low", [{"v": 30}])
        assert second.create({**definition, "name": "g"}).name == "g2"
        assert not (tmp_path / module).exists()
        assert made.status == "created"


def test_events_that_were_accepted_are_processed_once_after_a_kill(tmp_path, definition):
    """An accepted event is durable, whatever happens to the process."""
    cluster = LocalCluster(tmp_path, engine="inline")
    runtimes = opened(cluster)
    runtime = runtimes.start(runtimes.create(definition))
    for _ in range(5):
        runtimes.running(runtime).send("low", [{"v": 30}] * 10)
    cluster.kill()
    with LocalCluster(tmp_path, engine="inline") as cluster:
        assert messages(opened(cluster), "runtime1") == 50


@pytest.mark.parametrize("kind", ["started", "stopped", "scaled", "deleted"])
def test_a_process_killed_between_a_change_and_what_follows_leaves_it_to_the_next(
    tmp_path, definition, kind
):
    """The registry alone says what is to be; everything else can be done again."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = opened(cluster)
        runtime = runtimes.start(runtimes.create(definition))
        if kind == "started":
            runtime = runtimes.stop(runtime)
        else:
            runtimes.running(runtime).send("low", [{"v": 30}])
        copies = 3 if kind == "scaled" else 0
        runtimes.registry.change(lambda _: RuntimeChange(kind, runtime.id, 1, copies=copies))
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = opened(cluster)
        if kind == "deleted":
            with pytest.raises(NotFoundError):
                runtimes.find("runtime1")
            assert not (tmp_path / runtime.module).exists()
            return
        found = runtimes.find("runtime1")[0]
        running = runtimes.running(found)
        state = running.app.status()["topologies"]["run"]["state"]
        assert state == ("paused" if kind == "stopped" else "running")
        assert running.program.copies == (3 if kind == "scaled" else 1)
        if kind != "stopped":
            running.send("low", [{"v": 30}])
            assert messages(runtimes, "runtime1") == (1 if kind == "started" else 2)


def test_copies_of_a_stateless_runtime_change_at_once(runtimes, definition):
    """Nothing has to be said; what was counted counts on; accepted events go to those there are."""
    runtime = runtimes.start(runtimes.create(definition))
    runtimes.running(runtime).send("low", [{"v": 30}] * 2)
    assert messages(runtimes, "runtime1") == 2
    runtime = runtimes.scale(runtime, 3)
    runtimes.running(runtime).send("low", [{"v": 30}] * 6)
    assert messages(runtimes, "runtime1") == 8
    counted = runtimes.running(runtime).counters()
    assert [counted[copy]["low"]["json"] for copy in (1, 2, 3)] == [4, 2, 2]
    runtime = runtimes.scale(runtime, 2)
    runtimes.running(runtime).send("low", [{"v": 30}] * 6)
    assert messages(runtimes, "runtime1") == 14
    with pytest.raises(NotFoundError, match="no copy 3"):
        runtimes.running(runtime).send("low", [{"v": 1}], 3)


def test_one_that_cannot_be_brought_back_says_why_and_the_others_run(
    tmp_path, definition, monkeypatch
):
    """A definition that this version does not know is one runtime's failure."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = opened(cluster)
        runtimes.start(runtimes.create({**definition, "name": "a"}))
        runtimes.start(runtimes.create({**definition, "name": "b"}))

    def fails(given):
        if given["name"] == "a":
            raise ConflictError("this version knows it no more", hint="none")
        return reads(given)

    reads = known.read_definition
    monkeypatch.setattr(known, "read_definition", fails)
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = opened(cluster)
        found = runtimes.find("a")[0]
        assert "knows it no more" in runtimes.failure(found).message
        with pytest.raises(ConflictError):
            runtimes.running(found)
        runtimes.running(runtimes.find("b")[0]).send("low", [{"v": 1}])
        assert messages(runtimes, "b") == 1


def test_a_stop_with_a_backlog_holds_no_other_change(runtimes, definition, monkeypatch):
    """Others are made and started meanwhile; started again or deleted, it waits no more."""
    waits = threading.Event()

    def never(*_):
        waits.set()
        time.sleep(0.01)
        raise WaitTimeoutError("not yet", hint="wait")

    runtime = runtimes.start(runtimes.create(definition))
    monkeypatch.setattr(RunningRuntime, "wait_all", never)
    for change, state in ((runtimes.start, "running"), (runtimes.delete, None)):
        waits.clear()
        stop = threading.Thread(target=runtimes.stop, args=(runtime,))
        stop.start()
        assert waits.wait(20)
        other = runtimes.start(runtimes.create({**definition, "name": "other"}))
        assert other.status == "running"
        change(runtime)
        stop.join(20)
        assert not stop.is_alive()
        if state:
            topology = runtimes.running(runtime).app.topology("run")
            assert until(lambda topology=topology: topology.status()["state"] == "running")


def test_what_is_looked_at_while_it_is_changed_is_taken_once(tmp_path, cluster, definition):
    """Else a scale would forget how many copies there were before, and drop nothing."""
    runtimes = opened(cluster)
    runtime = runtimes.create(definition)
    objects, seen = runtimes.registry._objects, []
    create = objects.create

    def looked_at(number, payload):
        create(number, payload)
        seen.append(runtimes.find("runtime1")[0].copies)

    objects.create = looked_at
    scaled = runtimes.scale(runtime, 3)
    assert seen == [3]
    assert (scaled.copies_before, scaled.copies) == (1, 3)
    runtimes.close()


def test_a_deleted_runtime_leaves_no_open_file(runtimes, definition, tmp_path):
    """Files that are open keep their space, and a process may have so many only."""
    for _ in range(3):
        runtime = runtimes.start(runtimes.create(definition))
        runtimes.running(runtime).send("low", [{"v": 30}])
        runtimes.running(runtime).wait_all()
        runtimes.delete(runtime)
    names = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder itself
            names.append(str(each.readlink()))
    gone = [name for name in names if name.endswith(".mdb (deleted)")]
    assert [name for name in gone if name.startswith(str(tmp_path))] == []
