"""What a person paused stays paused until a person lets it go on: over kills, restarts, updates."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from memory_store import MemoryStore
from pausing_child import build

import atoll
from atoll import LocalCluster, agg, start
from atoll.errors import DamageError, FencedError, StorageError
from atoll.fsck.root import check_root
from atoll.microbatch.commits.objects import Branch
from atoll.microbatch.commits.timelines import timeline_objects
from atoll.microbatch.control import pausing
from atoll.microbatch.control.pausing import let_go_on, pause_objects, paused, rest
from atoll.microbatch.epochs import claim_epoch
from atoll.storage.local import LocalStore
from atoll.testing import TopologyTestDriver

PLACE = ("resting", "mb")


class Child:
    """The process of ``pausing_child.py``."""

    def __init__(self, root):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("pausing_child.py")), str(root)],
            env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.began = self.process.stdout.readline().strip()

    def do(self, *lines):
        """Each line, to its end."""
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n", line

    def kill(self):
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def test_over_kill_9(tmp_path):
    """A pause, and the one after a rollback: what was taken back is not processed before."""
    child = Child(tmp_path)
    assert child.began == "running"
    child.do("append 1", "wait 1", "append 10", "wait 2", "pause", "append 100")
    child.kill()
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(build())
        assert app.topology("mb").status()["state"] == "paused"
        assert app.topology("mb").status()["paused"]["why"] == "asked"
        assert app.pstate("total").get() == 11
        app.topology("mb").resume()
        app.topology("mb").wait_processed(3)
    child = Child(tmp_path)
    assert child.began == "running"
    child.do("rollback 1")
    child.kill()
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(build())
        status = app.topology("mb").status()
        assert (status["state"], status["paused"]["why"]) == ("paused", "rollback to microbatch 1")
        assert status["paused"]["since_ms"] <= time.time() * 1000
        app.depot("numbers").append([{"v": 1000}])
        assert app.topology("mb").status()["committed"] == 1
        assert app.pstate("total").get() == 1
        app.topology("mb").resume()
        app.topology("mb").wait_processed(4)
        assert app.pstate("total").get() == 1111
    assert check_root(tmp_path).findings == []


def test_over_restarts_and_updates(tmp_path):
    """An unchanged deployment, a new version, and lives after that; a resumption lasts as well."""
    with TopologyTestDriver(build(), root=tmp_path) as driver:
        driver.topology("mb").pause()
        driver.depot("numbers").append([{"v": 1}])
        for again in (driver.restart, lambda: driver.update(build()), driver.restart):
            again()
            assert driver.run() == []
            assert driver.status()["state"] == "paused"
        driver.update(build(added=5))
        assert driver.run() == []
        driver.topology("mb").resume()
        assert driver.status()["paused"] is None
        driver.restart()
        driver.update(build(added=5))
        driver.run_until_idle()
        assert driver.pstate("total").get() == 6


def test_a_paused_topology_still_delivers_and_rolls_back(tmp_path):
    """Begun paused, it can be rolled back again and goes on from there when it is told to."""
    with TopologyTestDriver(build(), root=tmp_path) as driver:
        for value in (1, 10, 100):
            driver.depot("numbers").append([{"v": value}])
            driver.run_until_idle()
        driver.topology("mb").rollback(2)
        driver.restart()
        driver.topology("mb").rollback(1)
        driver.restart()
        assert driver.pstate("total").get() == 1
        assert driver.status()["paused"]["why"] == "rollback to microbatch 1"
        driver.topology("mb").resume()
        driver.run_until_idle()
        assert driver.pstate("total").get() == 111


def test_a_removed_topology_leaves_no_pause(tmp_path):
    """Nothing of it is left but its name."""

    def two(*names):
        module = atoll.Module("two")
        numbers = module.depot("numbers", "v long")
        for name in names:
            mb = module.microbatch(name, vnode_count=1)
            mb.source(numbers, start_from=start.beginning()).aggregate(
                mb.pstate(f"total-{name}", int, initial=0), agg.sum("v")
            )
        return module

    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(two("a", "b"))
        app.pause()
        assert (tmp_path / "two" / "a" / "pauses").exists()
        app = cluster.update(two("b"), remove=["topology:a"])
        assert not (tmp_path / "two" / "a").exists()
        assert app.topology("b").status()["state"] == "paused"


def test_a_rollback_of_an_older_version_of_atoll_pauses_nobody(tmp_path):
    """Its object does not say so: the root goes on as it did."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(build())
        for count, value in enumerate((1, 10), 1):
            app.depot("numbers").append([{"v": value}])
            app.topology("mb").wait_processed(count)
        app.topology("mb").rollback(1)
    objects = timeline_objects(LocalStore(tmp_path), *PLACE)
    plain = msgspec.msgpack.decode(objects.read(1))
    assert plain.pop("pauses") is True
    objects.store.delete(objects.name(1))
    objects.create(1, msgspec.msgpack.encode(plain))  # as it was written then
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(build())
        app.topology("mb").wait_processed(2)
        assert app.pstate("total").get() == 11


def test_a_damaged_pause_is_named(tmp_path):
    """By a check of the root, and by the start, which would not know what was said."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        cluster.deploy(build()).pause()
    (file,) = (tmp_path / "resting" / "mb" / "pauses").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    (finding,) = check_root(tmp_path).findings
    assert finding.file.startswith("resting/mb/pauses/")
    with LocalCluster(tmp_path, engine="inline") as cluster, pytest.raises(DamageError) as caught:
        cluster.deploy(build())
    assert "pauses" in caught.value.context["file"]


@pytest.fixture
def store():
    """Objects in memory, and a life."""
    made = MemoryStore()
    return made, claim_epoch(made, "resting")


def test_what_was_said_last_counts(store):
    """Pauses and resumptions in any order, and rollbacks between them."""
    objects, epoch = store
    assert paused(objects, *PLACE) is None
    let_go_on(objects, epoch, *PLACE, 1)  # nothing to keep
    assert pause_objects(objects, *PLACE).latest() is None
    assert rest(objects, epoch, *PLACE, 5).since_ms == 5
    assert rest(objects, epoch, *PLACE, 9).since_ms == 5
    let_go_on(objects, epoch, *PLACE, 10)
    assert paused(objects, *PLACE) is None
    branch = Branch(3, 1, 20, 1, 1, pauses=True)
    timeline_objects(objects, *PLACE).create(1, msgspec.msgpack.encode(branch))
    assert paused(objects, *PLACE).why == "rollback to microbatch 3"
    let_go_on(objects, epoch, *PLACE, 30)
    assert paused(objects, *PLACE) is None
    timeline_objects(objects, *PLACE).create(2, msgspec.msgpack.encode(branch))
    assert paused(objects, *PLACE).since_ms == 20


def test_few_objects_stay(store, monkeypatch):
    """However often somebody changes their mind."""
    monkeypatch.setattr(pausing, "_KEPT", 3)
    objects, epoch = store
    for at in range(10):
        rest(objects, epoch, *PLACE, at)
        let_go_on(objects, epoch, *PLACE, at)
    assert len(pause_objects(objects, *PLACE).numbers()) <= 4


def test_only_the_life_in_charge_pauses(store):
    """An earlier one is told who took over, and nothing is kept."""
    objects, epoch = store
    claim_epoch(objects, "resting")
    with pytest.raises(FencedError):
        rest(objects, epoch, *PLACE, 1)
    assert paused(objects, *PLACE) is None


def test_what_cannot_be_kept_is_not_done(tmp_path, monkeypatch):
    """A disk that refuses: the topology goes on, or rests on, and the caller knows."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        topology = cluster.deploy(build()).topology("mb")

        def refuse(*_args):
            raise StorageError("the disk refused: no space")

        with monkeypatch.context() as full:
            full.setattr(LocalStore, "create", refuse)
            with pytest.raises(StorageError):
                topology.pause()
        assert topology.status()["state"] == "running"
        topology.pause()
        with monkeypatch.context() as full:
            full.setattr(LocalStore, "create", refuse)
            with pytest.raises(StorageError):
                topology.resume()
        assert topology.status()["state"] == "paused"
        topology.resume()
        assert topology.status()["state"] == "running"
