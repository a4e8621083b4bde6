"""A local cluster under a test: pausing all, updating, and dying."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.errors import DeployError, NotFoundError


def counting(step=None, name="words", partitions=2):
    """Counts words in two topologies, the first after a step."""
    module = atoll.Module(name)
    words = module.depot("words", "word string", partition_by="word", partitions=partitions)
    for number in (1, 2):
        mb = module.microbatch(f"mb{number}", vnode_count=4)
        counts = mb.pstate(f"counts{number}", Map(str, int))
        source = mb.source(words, start_from=start.beginning())
        if step is not None and number == 1:
            source = source.map(step, emits="word string")
        source.aggregate(counts["word"], agg.count())
    return module


def test_a_module_is_paused_and_resumed_as_a_whole():
    """Each topology's next microbatch then holds what came meanwhile."""
    with LocalCluster(engine="inline") as cluster:
        app = cluster.deploy(counting())
        app.pause()
        app.depot("words").append([{"word": "a"}])
        app.depot("words").append([{"word": "b"}])
        assert [app.topology(name).status()["state"] for name in app.topologies()] == ["paused"] * 2
        app.resume()
        for name in app.topologies():
            app.topology(name).wait_processed(2)
            assert app.topology(name).status()["committed"] == 1


def test_an_update_needs_a_module_that_runs_and_fits():
    """What does not fit leaves the old version running."""
    with LocalCluster(engine="inline") as cluster:
        with pytest.raises(NotFoundError, match="no module 'words' runs here"):
            cluster.update(counting())
        app = cluster.deploy(counting())
        app.depot("words").append([{"word": "a"}])
        app.topology("mb1").wait_processed(1)
        with pytest.raises(DeployError):
            cluster.update(counting(partitions=3))
        app.depot("words").append([{"word": "a"}])
        app.topology("mb1").wait_processed(2)
        app = cluster.update(counting(lambda row: {"word": row.word.upper()}))
        app.depot("words").append([{"word": "a"}])
        app.topology("mb1").wait_processed(3)
        assert app.pstate("counts1").get() == {"A": 1, "a": 2}


def test_a_killed_cluster_leaves_an_attempt_behind_that_the_next_one_repeats(tmp_path):
    """The attempt was in the middle of its work; nothing of it counts twice."""
    began, go_on = threading.Event(), threading.Event()
    seen = []

    def slow(row):
        seen.append(row.word)
        if len(seen) == 2:
            began.set()
            go_on.wait(60)
        return {"word": row.word}

    with LocalCluster(tmp_path, engine="inline", parallelism=3) as cluster:
        app = cluster.deploy(counting(slow))
        app.topology("mb1").pause()
        app.depot("words").append([{"word": word} for word in "abcdef"])
        app.topology("mb1").resume()
        assert began.wait(60)
        killer = threading.Thread(target=cluster.kill)
        killer.start()
        while not app._loops["mb1"]._closing:
            time.sleep(0.001)
        go_on.set()
        killer.join()
        assert not cluster.apps
        assert app._loops["mb1"].published.id == 0
        assert not [each for each in threading.enumerate() if each.name.startswith("atoll-words")]
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(counting())
        for number in (1, 2):
            app.topology(f"mb{number}").wait_processed(6)
            assert app.pstate(f"counts{number}").get() == dict.fromkeys("abcdef", 1)


@pytest.mark.parametrize("end", [LocalCluster.close, LocalCluster.kill])
def test_all_modules_end_although_one_of_them_fails_to(monkeypatch, end):
    """A depot that a full disk lets not close, of the first or the last; the error is raised."""
    for broken in ("first", "second"):
        cluster = LocalCluster(engine="inline")
        apps = {name: cluster.deploy(counting(name=name)) for name in ("first", "second")}
        depot = apps[broken].depot("words")
        closed = depot.close

        def failing(closed=closed):
            closed()
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(depot, "close", failing)
        with pytest.raises(OSError, match="No space left"):
            end(cluster)
        assert [each.status()["state"] for each in apps.values()] == ["stopped", "stopped"]
        assert not cluster.apps
        assert cluster.root.exists() == (end is LocalCluster.kill)
        shutil.rmtree(cluster.root, ignore_errors=True)
