"""Inline attempts that hang or are slow: named, ended, repeated; what stays behind does no harm."""

from __future__ import annotations

import threading
import time

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.engine.exchange import reading
from atoll.errors import TopologyFailedError
from atoll.microbatch import stragglers
from atoll.pstate.store import stores
from atoll.pstate.store.vnode_writer import VnodeWriter
from atoll.pstate.store.writer_lock import Patience
from atoll.storage.numbered import NumberedObjects

HANGS_SECONDS_MAX = 60.0


class Hang:
    """Lets the first call hang until the test is over."""

    def __init__(self):
        self.go = threading.Event()
        self.threads = []

    def __call__(self):
        """The first time it returns when :attr:`go` is set."""
        self.threads.append(threading.current_thread())
        if len(self.threads) == 1:
            self.go.wait(HANGS_SECONDS_MAX)


@pytest.fixture
def hang(monkeypatch):
    """A hang that ends with the test; what is silent is named soon."""
    monkeypatch.setattr(stragglers, "NAMED_SECONDS", 0.5)
    monkeypatch.setattr(stores, "Patience", lambda seconds: Patience(0.2))
    made = Hang()
    yield made
    made.go.set()


def counting(step=lambda row: row, **options):
    """Counts words after a function."""
    module = atoll.Module("words")
    words = module.depot("words", "word string", partition_by="word")
    chosen = {name.replace("__", "."): value for name, value in options.items()}
    mb = module.microbatch("mb", vnode_count=4, options=chosen)
    counts = mb.pstate("counts", Map(str, int))
    source = mb.source(words, start_from=start.beginning())
    source.map(step, emits="word string").aggregate(counts["word"], agg.count())
    return module


def in_user_code(hang, _monkeypatch):
    """The function of map hangs."""

    def step(row):
        hang()
        return row

    return step


def in_a_read(hang, monkeypatch):
    """The file of the depot hangs."""
    known = reading.read_block

    def read(*args):
        hang()
        return known(*args)

    monkeypatch.setattr(reading, "read_block", read)
    return lambda row: row


def in_a_store(hang, monkeypatch):
    """The commit of a vnode store hangs, with its transaction open."""
    known = VnodeWriter.commit

    def commit(self):
        hang()
        return known(self)

    monkeypatch.setattr(VnodeWriter, "commit", commit)
    return lambda row: row


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (in_user_code, "map (test_silent_tasks.py"),
        (in_a_read, "reading depot words partition"),
        (in_a_store, "committing the store of counts vnode"),
    ],
)
def test_a_task_that_hangs_is_named_and_ended_at_its_limit(
    tmp_path, caplog, monkeypatch, hang, where, said
):
    """The next attempt commits; when the one left behind goes on, nothing comes of it."""
    step = where(hang, monkeypatch)
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting(step, topology__task__silence__seconds=1))
        app.depot("words").append([{"word": word} for word in "abca"])
        app.topology("mb").wait_processed(4)
        (attempt,) = app.topology("mb").status()["failed_attempts"]
        assert attempt["code"] == "E-TASK-SILENT"
        assert said in attempt["message"]
        assert "test_silent_tasks.py" in attempt["context"]["stack"]
        named = [each for each in caplog.messages if "a task is silent" in each]
        assert named
        assert all(said in each for each in named)
        hang.go.set()
        hang.threads[0].join(0.5)  # it goes on: to its next beat, or by way of its transaction
        expected = {"a": 2, "b": 1, "c": 1}
        assert app.pstate("counts").get() == expected
        app.depot("words").append([{"word": word} for word in "abca"])
        app.topology("mb").wait_processed(8)
        assert app.pstate("counts").get() == {word: 2 * n for word, n in expected.items()}


def test_a_slow_attempt_ends_at_the_phase_timeout_and_not_before(tmp_path, hang):
    """Its task beats with every row, so silence does not end it; its thread is used again."""
    rows, threads = [], set()

    def slow(row):
        threads.add(threading.current_thread())
        rows.append(row.word)
        hang.go.wait(0.02)
        return row

    options = {
        "topology__microbatch__phase__timeout__seconds": 2,
        "topology__task__silence__seconds": 1,
        "topology__microbatch__retry__max__attempts": 1,
    }
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting(slow, **options))
        app.depot("words").append([{"word": str(n)} for n in range(200)])
        with pytest.raises(TopologyFailedError):
            app.topology("mb").wait_processed(200)
        assert app.topology("mb").status()["error"]["code"] == "E-PHASE-TIMEOUT"
        assert 50 < len(rows) < 190
        assert app.pstate("counts").get() == {}
        hang.go.set()
        app.topology("mb").resume()
        app.topology("mb").wait_processed(200)
        assert len(threads) == 1


def test_an_attempt_that_hangs_ends_when_a_second_cluster_takes_over(tmp_path, hang):
    """The second one does the work at once; the first one halts, and can be closed."""

    def step(row):
        hang()
        return row

    with LocalCluster(tmp_path, engine="inline") as first:
        app = first.deploy(counting(step))
        app.depot("words").append([{"word": "a"}])
        while not hang.threads:
            hang.go.wait(0.01)
        with LocalCluster(tmp_path, engine="inline") as second:
            taken = second.deploy(counting(step))
            taken.topology("mb").wait_processed(1)
            assert taken.pstate("counts").get() == {"a": 1}
            while app.topology("mb").status()["state"] != "fenced":
                hang.go.wait(0.01)


def test_a_step_of_the_driver_that_hangs_is_told_and_another_life_goes_on(
    tmp_path, monkeypatch, hang
):
    """The commit's creation never returns: nothing ends it here, and it harms no other life."""
    known = NumberedObjects.create_or_find

    def create(self, number, data):
        if self.prefix.endswith("/commits"):
            hang()
        return known(self, number, data)

    monkeypatch.setattr(NumberedObjects, "create_or_find", create)
    options = {"topology__microbatch__phase__timeout__seconds": 1}
    with LocalCluster(tmp_path, engine="inline") as cluster:
        first = cluster.deploy(counting(**options))
        first.depot("words").append([{"word": word} for word in "abca"])
        until = time.monotonic() + HANGS_SECONDS_MAX
        while not first.topology("mb").status()["warnings"]:
            assert time.monotonic() < until
            time.sleep(0.01)
        (warning,) = first.topology("mb").status()["warnings"]
        assert warning["code"] == "W-STEP-HANGS"
        assert warning["message"].startswith("step 3 of the microbatch")
        assert "test_silent_tasks.py" in warning["context"]["stack"]
        expected = {"a": 2, "b": 1, "c": 1}
        with LocalCluster(tmp_path, engine="inline") as other:
            second = other.deploy(counting(**options))
            second.topology("mb").wait_processed(4)
            assert second.pstate("counts").get() == expected
            hang.go.set()
            while first.fenced is None:
                assert time.monotonic() < until
                time.sleep(0.01)
            assert second.pstate("counts").get() == expected
        assert first.topology("mb").status()["warnings"] == []
