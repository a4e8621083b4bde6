"""Tasks on Spark that hang, standing ones and those of Spark jobs: named, ended and repeated."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from harness import soaking

import atoll
from atoll import agg, start
from atoll.microbatch import stragglers

SAID = {
    "user code": "map (test_hung_tasks.py",
    "read": "reading depot rows partition 0",
    "store": "committing the store of total vnode 0",
}
CASES = [("standing", "store"), ("spark", "user code")]
MORE = [("standing", "user code"), ("standing", "read"), ("spark", "read"), ("spark", "store")]


def hanging(place, marks):
    """A function that hangs on a record of 1, or lets the task do so that met it, once.

    It is pickled by value, and runs in a worker.
    """

    def hang_once():
        mark = Path(marks, "hung")
        if not mark.exists():
            mark.write_text(str(os.getpid()))
            threading.Event().wait(120)

    def spoiled(owner, name):
        known = getattr(owner, name)

        def spoilt(*args):
            hang_once()
            return known(*args)

        setattr(owner, name, spoilt)

    def step(row):
        if place == "user code":
            if row.v == 1:
                hang_once()
        elif row.v == 0 and not Path(marks, "spoilt").exists():
            Path(marks, "spoilt").touch()
            if place == "read":
                from atoll.engine.exchange import reading

                spoiled(reading, "read_block")
            else:
                from atoll.pstate.store.vnode_writer import VnodeWriter

                spoiled(VnodeWriter, "commit")
        return row

    return step


@pytest.mark.parametrize(("way", "place"), [*CASES, *(MORE if soaking() else [])])
def test_a_task_that_hangs_on_spark_is_named_and_ended_at_its_limit(
    cluster, tmp_path, monkeypatch, caplog, way, place
):
    """The workers that hang are killed, and the next attempt commits."""
    monkeypatch.setattr(stragglers, "NAMED_SECONDS", 1.0)
    module = atoll.Module("hung")
    rows = module.depot("rows", "v long", partitions=1)
    options = {"topology.task.silence.seconds": 2}
    mb = module.microbatch("mb", vnode_count=4, options=options)
    total = mb.pstate("total", int, initial=0)
    source = mb.source(rows, start_from=start.beginning())
    stepped = source.map(hanging(place, str(tmp_path)), emits="v long")
    if way == "spark":
        stepped = stepped.transform(lambda frame: frame)
        monkeypatch.setattr("atoll.spark.standing.tasks.StandingTasks.posts", lambda *_: None)
    stepped.aggregate(total, agg.sum("v"))
    app = cluster.deploy(module)
    app.depot("rows").append([{"v": 0}])
    app.topology("mb").wait_processed(1, timeout_seconds=120)
    app.depot("rows").append([{"v": 1}])
    app.topology("mb").wait_processed(2, timeout_seconds=120)
    status = app.topology("mb").status()
    microbatches = app.topology("mb").recent_microbatches()
    attempt = next(each for one in microbatches for each in one["failed_attempts"])
    assert attempt["code"] == "E-TASK-SILENT", attempt
    assert SAID[place] in attempt["message"]
    assert "test_hung_tasks.py" in attempt["context"]["stack"]
    assert any("a task is silent" in each and SAID[place] in each for each in caplog.messages)
    assert status["jobs"] == [way]
    assert app.pstate("total").get() == 1
    assert not Path("/proc", Path(tmp_path, "hung").read_text()).exists()
