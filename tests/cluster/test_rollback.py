"""Going back and reading as of: a whole module, run in this process, against a plain fold.

Every append is waited for, so each becomes one microbatch, and the model of every id is known.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from dataclasses import replace

import pytest

import atoll
from atoll import Map, agg, connect, start
from atoll.cluster.depots import depot_spec
from atoll.cluster.local import LocalCluster
from atoll.errors import TopologyFailedError, UsageError
from atoll.microbatch.commits.history import commit_objects, read_commit
from atoll.microbatch.commits.objects import Branch, encode
from atoll.microbatch.commits.tidy import files_of
from atoll.microbatch.commits.timelines import create_timeline, read_timelines
from atoll.path import Path as StatePath

HISTORY = 5


def _module(history=HISTORY, every=4, fail=None):
    module = atoll.Module("back")
    rows = module.depot("rows", "k string, v long", partitions=1)
    mb = module.microbatch(
        "mb",
        vnode_count=8,
        options={
            "pstate.history.microbatches": history,
            "pstate.history.seconds": 0,
            "pstate.checkpoint.interval.commits": every,
            "topology.microbatch.retry.max.attempts": 1,
        },
    )
    sums = mb.pstate("sums", Map(str, int))
    stream = mb.source(rows, start_from=start.beginning())
    if fail is not None:
        stream = stream.map(fail, emits="k string, v long")
    stream.aggregate(sums["k"], agg.sum("v"))
    return module


class Run:
    """A module that runs, and what the state must be after each microbatch."""

    def __init__(self, root, **options):
        self.cluster = LocalCluster(root, engine="inline")
        self.app = self.cluster.deploy(_module(**options))
        self.mb = self.app.topology("mb")
        self.sums = self.app.pstate("sums")
        self.records = []
        self.models = {0: {}}
        self.ends = {0: 0}

    def __enter__(self):
        """Itself."""
        return self

    def __exit__(self, *error):
        """Stop."""
        self.cluster.close()

    @property
    def last(self):
        """The microbatch that readers see."""
        return self.sums.view().commit_id

    def append(self, *pairs):
        """One microbatch more, unless the topology is paused."""
        self.records += pairs
        self.app.depot("rows").append([{"k": key, "v": value} for key, value in pairs])

    def microbatch(self, *pairs):
        """Append, wait, and remember the model."""
        self.append(*pairs)
        self.settle()

    def settle(self):
        """Wait until all records are in, and remember the model of the last id."""
        self.mb.wait_processed(len(self.records))
        self.models[self.last] = self.fold(len(self.records))
        self.ends[self.last] = len(self.records)

    def back(self, to):
        """Go back; the models of the abandoned ids are forgotten."""
        self.mb.rollback(to)
        self.models = {number: m for number, m in self.models.items() if number <= to}
        assert self.last == to
        assert self.mb.status()["processed"] == self.ends[to]
        assert self.state() == self.models[to]

    def resume(self):
        """Go on with the records that are there."""
        self.mb.resume()
        self.settle()

    def fold(self, count):
        """What the first records come to."""
        totals = Counter()
        for key, value in self.records[:count]:
            totals[key] += value
        return dict(totals)

    def state(self):
        """What readers see."""
        return self.sums.select_one(StatePath())


def _pairs(rng, count=3):
    return [(rng.choice("abcdefgh"), rng.randint(1, 9)) for _ in range(count)]


@pytest.fixture
def running(tmp_path):
    """A module on a folder of its own."""
    with Run(tmp_path / "root") as made:
        yield made


def test_every_readable_id_equals_its_model(running):
    """Random commits: all ids of the last five, and no earlier one."""
    rng = random.Random(7)
    for _ in range(14):
        running.microbatch(*_pairs(rng))
        low = max(0, running.last - HISTORY)
        for number in range(low, running.last + 1):
            pinned = running.sums.as_of(number)
            assert pinned.select_one(StatePath()) == running.models[number], number
            assert pinned.get("a", default=0) == running.models[number].get("a", 0)
    with pytest.raises(UsageError, match="cannot be read") as refused:
        running.sums.as_of(low - 1)
    assert f"{low} to {running.last}" in refused.value.hint
    with pytest.raises(UsageError):
        running.sums.as_of(running.last + 1)


def test_a_pinned_reader_is_exact_or_refused(running):
    """Commits go on under it until its id is too long ago: never another state."""
    for value in range(3):
        running.microbatch(("a", 1), ("b", value))
    pinned, wanted = running.sums.as_of(2), running.models[2]
    refused = 0
    for value in range(40):
        running.microbatch(("a", 1), ("c", value))
        if value % 3 == 0:
            shutil.rmtree(
                running.cluster.folders.local / "state" / "back" / "sums", ignore_errors=True
            )
        try:
            assert pinned.select_one(StatePath()) == wanted
        except UsageError:
            refused += 1
            assert running.last - HISTORY > 2
    assert running.sums.as_of(running.last).select_one(StatePath()) == running.models[running.last]


def test_rollback_then_other_records(running):
    """The state is what the new line folds; its ids begin again."""
    rng = random.Random(3)
    for _ in range(8):
        running.microbatch(*_pairs(rng))
    before = running.models[8]
    running.back(5)
    assert before != running.models[5]
    assert running.mb.status()["state"] == "paused"
    assert running.mb.status()["timeline"] == 1
    running.append(("z", 100))
    running.resume()
    assert running.state() == running.fold(len(running.records))
    assert running.last == 6
    assert running.sums.as_of(5).select_one(StatePath()) == running.models[5]


def test_stores_that_nobody_reopened_and_two_rollbacks(running):
    """Vnodes that only abandoned commits touched show nothing of them, many commits later."""
    running.microbatch(("base", 1))
    for key in "abcdefgh":
        running.microbatch((key, 1), ("base", 1))
    running.back(running.last - 3)
    running.back(running.last - 1)
    kept = dict(running.models[running.last])
    running.records = running.records[: running.ends[running.last]]
    assert running.state() == kept
    assert running.mb.status()["timeline"] == 2
    running.mb.resume()
    running.mb.wait_processed(17)
    assert running.state() == {"base": 9, **dict.fromkeys("abcdefgh", 1)}


def test_back_to_the_beginning_and_limits(running):
    """Id 0 is within reach while the history is longer than the life; then it is not."""
    running.microbatch(("a", 1))
    running.microbatch(("b", 1))
    running.back(0)
    assert running.state() == {}
    running.resume()
    assert running.state() == {"a": 1, "b": 1}
    for _ in range(HISTORY + 1):
        running.microbatch(("a", 1))
    low = running.last - HISTORY
    with pytest.raises(UsageError) as refused:
        running.mb.rollback(low - 1)
    assert f"{low} to {running.last}" in refused.value.hint
    with pytest.raises(UsageError):
        running.mb.rollback(running.last + 1)
    assert running.mb.status()["state"] == "running"
    running.microbatch(("a", 1))


def test_going_back_twice_never_reaches_what_was_dropped(running):
    """After a rollback by five, another five back are gone: the horizon stays."""
    for _ in range(12):
        running.microbatch(("a", 1), ("b", 2))
    running.back(12 - HISTORY)
    assert running.mb.status()["readable_from"] == 12 - HISTORY
    with pytest.raises(UsageError):
        running.mb.rollback(12 - HISTORY - 1)
    with pytest.raises(UsageError):
        running.sums.as_of(12 - HISTORY - 1)


@pytest.mark.parametrize("lost", [False, True])
def test_a_new_life_goes_on_on_the_new_line(tmp_path, lost):
    """Checkpoints lie on both lines; the local folder may be gone."""
    root, rng = tmp_path / "root", random.Random(11)
    with Run(root) as first:
        for _ in range(12):
            first.microbatch(*_pairs(rng))
        first.back(9)
        first.resume()
        for _ in range(7):
            first.microbatch(*_pairs(rng))
        first.back(first.last - 2)
        records, models, last = first.records, first.models, first.last
    if lost:
        shutil.rmtree(root / "local")
    assert connect(root, "back").pstate("sums").select_one(StatePath()) == models[last]
    with Run(root) as second:
        second.records = records
        assert second.mb.status()["state"] == "paused"
        second.resume()
        assert second.state() == second.fold(len(records))
        second.microbatch(*_pairs(rng))
        assert second.state() == second.fold(len(second.records))
        for number in range(second.mb.status()["readable_from"], last + 1):
            assert second.sums.as_of(number).select_one(StatePath()) == models[number]


def test_readers_in_other_processes_follow(running, tmp_path):
    """A reader made before the rollback moves with its next read."""
    for value in range(4):
        running.microbatch(("a", 1), (f"k{value}", 1))
    outside = connect(tmp_path / "root", "back").pstate("sums")
    pinned = outside.as_of(3)
    assert outside.get("a") == 4
    running.back(2)
    assert outside.get("a") == 2
    assert outside.select_one(StatePath()) == running.models[2]
    assert pinned.get("a") == 3  # the store still has all of the old line
    running.append(("new", 1))
    running.resume()
    assert outside.select_one(StatePath()) == running.state() == running.fold(9)
    with pytest.raises(UsageError, match="abandoned by a rollback"):
        pinned.get("a")


def test_abandoned_files_go_and_a_late_commit_of_the_old_line_counts_for_nothing(tmp_path):
    """What a stopped coordinator still commits on the old line is garbage of the next start."""
    root = tmp_path / "root"
    with Run(root) as first:
        for _ in range(6):
            first.microbatch(("a", 1), ("b", 2))
        store = first.app.store
        old = [read_commit(store, "back", "mb", number) for number in (5, 6)]
        gone = {name for commit in old for name in files_of(commit)}
        assert gone
        first.back(4)
        kept = {n for i in range(1, 5) for n in files_of(read_commit(store, "back", "mb", i))}
        assert not [name for name in gone - kept if store.exists(name)]
        assert all(store.exists(name) for name in kept)
        assert commit_objects(store, "back", "mb").numbers()[-1] == 4
        late = old[0]
        commit_objects(store, "back", "mb").create(5, encode(late))
        assert first.state() == first.models[4]
        assert connect(root, "back").pstate("sums").get("a") == 4
    with Run(root) as second:
        assert commit_objects(second.app.store, "back", "mb").numbers()[-1] == 4
        second.mb.resume()
        second.mb.wait_processed(12)
        assert second.state() == {"a": 6, "b": 12}


def test_a_failed_topology_goes_back(tmp_path):
    """The plan that keeps failing is dropped with it; after a fix the records are read again."""
    root = tmp_path / "root"
    (tmp_path / "broken").touch()

    def fail(row, flag=str(tmp_path / "broken")):
        from pathlib import Path

        if row["v"] == 666 and Path(flag).exists():
            raise ValueError("poison")
        return {"k": row["k"], "v": row["v"]}

    with Run(root, fail=fail) as run:
        run.microbatch(("a", 1))
        run.microbatch(("a", 1))
        run.append(("a", 666))
        with pytest.raises(TopologyFailedError):
            run.mb.wait_processed(3)
        run.back(1)
        assert run.mb.status()["state"] == "paused"
        assert run.mb.status()["error"] is None
        (tmp_path / "broken").unlink()
        run.resume()
        assert run.state() == {"a": 668}


def test_a_rollback_by_somebody_else_is_followed(running):
    """The object is the rollback, whoever made it: the coordinator takes it over and pauses."""
    for _ in range(5):
        running.microbatch(("a", 1))
    epoch = running.app.epoch.number
    create_timeline(running.app.store, "back", "mb", 1, Branch(3, epoch, 0, 1, 0))
    running.append(("a", 1))
    until = time.monotonic() + 120
    while running.mb.status()["state"] != "paused":
        assert time.monotonic() < until
    assert running.last == 3
    assert running.state() == {"a": 3}
    running.resume()
    assert running.state() == {"a": 6}
    assert read_timelines(running.app.store, "back", "mb").of(4) == 1


def test_retention_keeps_what_a_rollback_reads_again(tmp_path, monkeypatch):
    """A depot that keeps as little as it may still has the records after the horizon."""
    monkeypatch.setattr("atoll.cluster.upkeep.trimming._INTERVAL_MS", 0)
    monkeypatch.setattr(
        "atoll.cluster.deploy.lives.depot_spec",
        lambda *declared: replace(depot_spec(*declared), segment_bytes_max=1 << 16),
    )
    module = atoll.Module("back")
    rows = module.depot("rows", "k string, v long", partitions=1, retain_records=1)
    mb = module.microbatch(
        "mb",
        vnode_count=2,
        options={"pstate.history.seconds": 0, "pstate.history.microbatches": HISTORY},
    )
    sums = mb.pstate("sums", Map(str, int))
    mb.source(rows, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(module)
        for number in range(1, 15):
            text = f"{number:02d}" * 40_000
            app.depot("rows").append([{"k": text, "v": number}])
            app.topology("mb").wait_processed(number)
        app.topology("mb").pause()
        app.depot("rows").append([{"k": "x", "v": 1}])
        before = app.pstate("sums").select_one(StatePath())
        dropped = app.depot("rows").start_offsets()[0]
        app.topology("mb").rollback(14 - HISTORY)
        app.topology("mb").resume()
        app.topology("mb").wait_processed(15)
        assert app.pstate("sums").select_one(StatePath()) == {**before, "x": 1}
        assert 0 < dropped <= 14 - HISTORY
