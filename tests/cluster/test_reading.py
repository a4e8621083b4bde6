"""Reading state: as a DataFrame, from another process, after the local folder is gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg, path
from atoll.cluster.local import LocalCluster
from atoll.errors import NotFoundError

SOURCE = Path(__file__).parents[2] / "src"
ROWS = [{"k": f"k{n % 7}", "n": n, "v": n * n} for n in range(100)]


def _module(partitions=3, vnodes=16):
    module = atoll.Module("reading")
    rows = module.depot("rows", "k string, n long, v long", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=vnodes)
    nested = mb.pstate("nested", Map(str, Map(int, int)))
    averages = mb.pstate("averages", Map(str, Struct(mean=float, most=int)))
    tags = mb.pstate("tags", Map(str, Set(int)))
    apart = mb.pstate("apart", Map(str, Struct(total=int, seen=Set(int))))
    total = mb.pstate("total", int, initial=0)
    source = mb.source(rows)
    source.aggregate(nested["k"]["n"], agg.sum("v"))
    source.aggregate(averages["k"], mean=agg.avg("v"), most=agg.max("v"))
    source.aggregate(tags["k"], agg.collect_set("n % 5"))
    source.aggregate(apart["k"]["total"], agg.sum("v"))
    source.aggregate(apart["k"]["seen"], agg.collect_set("n % 3"))
    source.aggregate(total, agg.sum("v"))
    return module


def _run(cluster, rows=ROWS, **shape):
    app = cluster.deploy(_module(**shape))
    app.depot("rows").append(rows)
    app.topology("mb").wait_processed(len(rows))
    return app


KEYS = 20_000
BUSY = {
    "depot.microbatch.max.records": 20,
    "pstate.checkpoint.interval.commits": 2,
    "pstate.history.seconds": 120,
}
"""Many small microbatches; nothing stays longer than the history, however busy the machine is."""


def _busy(cluster, backlog):
    """A topology that has moved amounts between keys for a while, and goes on and on.

    One move is two records, next to each other, so the sum over all keys stays what it was.
    """
    module = atoll.Module("busy")
    rows = module.depot("rows", "k long, v long", partitions=1)
    mb = module.microbatch("mb", vnode_count=16)
    mb.source(rows).aggregate(mb.pstate("sums", Map(int, int))["k"], agg.sum("v"))
    app = cluster.deploy(module)
    app.depot("rows").append([{"k": key, "v": 100} for key in range(KEYS)])
    app.topology("mb").wait_processed(KEYS)
    for name, value in BUSY.items():
        app.options.set(name, value)
    moved = [(n * 7919 % KEYS, n % 90) for n in range(backlog // 2)]
    app.depot("rows").append(
        [
            {"k": key, "v": amount}
            for k, v in moved
            for key, amount in ((k, -v), ((k + 1) % KEYS, v))
        ]
    )
    app.topology("mb").wait_processed(KEYS + 200)
    return app


def test_a_dataframe_is_read_to_its_end_while_its_topology_commits_as_fast_as_it_can(cluster):
    """All its Spark partitions see one commit, though one is read fifty microbatches later."""
    app = _busy(cluster, 40_000)
    topology = app.topology("mb")
    rows = app.dataframe("sums").toLocalIterator()
    found = [next(rows).value]
    topology.wait_processed(topology.status()["processed"] + 1_000)
    found += [row.value for row in rows]
    assert (sum(found), len(found)) == (100 * KEYS, KEYS)
    assert topology.status()["lag"]["rows"][0] > 0, "it was busy all the time"


def test_an_iteration_goes_on_while_its_topology_commits_as_fast_as_it_can(tmp_path):
    """It is as slow as its user: ten microbatches for every 1,000 entries."""
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = _busy(cluster, 40_000)
        topology = app.topology("mb")
        total = count = 0
        for _, value in app.pstate("sums").iterate(path.all()):
            total, count = total + value, count + 1
            if count % 1_000 == 0:
                topology.wait_processed(topology.status()["processed"] + 200)
        assert (total, count) == (100 * KEYS, KEYS)
        assert topology.status()["lag"]["rows"][0] > 0, "it was busy all the time"


def test_a_whole_pstate_is_a_dataframe_with_a_spark_partition_per_group_of_vnodes(cluster):
    """Every entry once, in typed columns; nested keys, structs, sets and fields stored apart."""
    app = _run(cluster)
    nested = app.dataframe("nested")
    assert nested.columns == ["key", "key_2", "value"]
    assert nested.rdd.getNumPartitions() == 2
    expected = {(r["k"], r["n"]): r["v"] for r in ROWS}
    assert expected == {(r.key, r.key_2): r.value for r in nested.collect()}

    found = {r.key: (r.value.mean, r.value.most) for r in app.dataframe("averages").collect()}
    values = {k: [r["v"] for r in ROWS if r["k"] == k] for k in {r["k"] for r in ROWS}}
    assert {k: (sum(vs) / len(vs), max(vs)) for k, vs in values.items()} == found

    elements = {(r.key, r.element) for r in app.dataframe("tags").collect()}
    assert {(r["k"], r["n"] % 5) for r in ROWS} == elements
    totals = {r.key: r.value for r in app.dataframe("apart", field="total").collect()}
    assert {k: sum(vs) for k, vs in values.items()} == totals
    seen = {(r.key, r.element) for r in app.dataframe("apart", field="seen").collect()}
    assert {(r["k"], r["n"] % 3) for r in ROWS} == seen
    assert [sum(r["v"] for r in ROWS)] == [r.value for r in app.dataframe("total").collect()]


def test_get_and_select_agree_with_the_rows(cluster):
    """Points, whole maps, sets and structs, from Python."""
    app = _run(cluster, vnodes=1)
    assert app.pstate("nested").get("k3", 10) == 100
    assert app.pstate("nested").get("k3", 11) is None
    assert app.pstate("nested").get("k3", 11, default=-1) == -1
    assert app.pstate("nested").get("k3") == {r["n"]: r["v"] for r in ROWS if r["k"] == "k3"}
    assert app.pstate("tags").get("k1") == {r["n"] % 5 for r in ROWS if r["k"] == "k1"}
    assert app.pstate("apart").select_one(path.key("k2").field("total")) == sum(
        r["v"] for r in ROWS if r["k"] == "k2"
    )
    with pytest.raises(NotFoundError) as raised:
        app.pstate("nest")
    assert "nested" in str(raised.value)


READER = """
import json, sys
import atoll
module = atoll.connect(sys.argv[1], "reading")
totals, nested = module.pstate("total"), module.pstate("nested")
seen = []
for line in sys.stdin:
    seen.append(totals.get())
    print(json.dumps([totals.get(), len(nested.get("k0") or {})]), flush=True)
assert "pyspark" not in sys.modules
"""


def test_another_process_reads_each_commit_without_spark_or_the_module_code(cluster):
    """The reader knows the root alone; it sees every commit once it is made, and never less."""
    app = _run(cluster)
    count, total = len(ROWS), sum(r["v"] for r in ROWS)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(cluster.root)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        for step in range(5):
            reader.stdin.write("\n")
            reader.stdin.flush()
            expected = [total, len({r["n"] for r in ROWS if r["k"] == "k0"}) + step]
            assert expected == json.loads(reader.stdout.readline())
            app.depot("rows").append([{"k": "k0", "n": 1000 + step, "v": 1}])
            count, total = count + 1, total + 1
            app.topology("mb").wait_processed(count)
        reader.stdin.close()
        assert reader.wait(timeout=30) == 0


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_stopped_module_goes_on_without_its_local_folder(tmp_path, parallelism):
    """State is rebuilt from checkpoints and logs, also by another number of actors."""
    options = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 3}
    root = tmp_path / "root"
    with LocalCluster(root) as cluster:
        module = _module()
        module.topologies["mb"].options.update(options)
        app = cluster.deploy(module)
        for start in range(0, 100, 10):
            app.depot("rows").append(ROWS[start : start + 10])
            app.topology("mb").wait_processed(start + 10)
        before = [app.pstate(name).select(path.all()) for name in ("nested", "averages", "tags")]
    shutil.rmtree(root / "local")
    with LocalCluster(root, parallelism=parallelism) as cluster:
        module = _module()
        module.topologies["mb"].options.update(options)
        app = cluster.deploy(module)
        after = [app.pstate(name).select(path.all()) for name in ("nested", "averages", "tags")]
        assert before == after
        assert app.topology("mb").status()["processed"] == 100
        app.depot("rows").append([{"k": "k0", "n": 5000, "v": 7}])
        app.topology("mb").wait_processed(101)
        assert app.pstate("nested").get("k0", 5000) == 7
        assert app.pstate("total").get() == sum(r["v"] for r in ROWS) + 7


def test_keys_far_longer_than_the_store_allows(cluster):
    """64 KiB keys that differ only at their end, beside short ones, in order."""
    module = atoll.Module("long-keys")
    rows = module.depot("rows", "k string, v long")
    mb = module.microbatch("mb", vnode_count=4)
    sums = mb.pstate("sums", Map(str, int))
    inner = mb.pstate("inner", Map(str, Map(str, int)))
    listed = mb.pstate("listed", List(str))
    mb.source(rows).aggregate(sums["k"], agg.sum("v"))
    mb.source(rows).aggregate(inner["'one'"]["k"], agg.sum("v"))
    mb.source(rows).where("length(k) < 9").aggregate(listed, agg.collect_list("k"))
    app = cluster.deploy(module)
    keys = ["a" * 65_536 + end for end in ("", "a", "b", "\0")] + ["a", "b", "a" * 500, "z" * 600]
    for _ in range(2):
        app.depot("rows").append([{"k": key, "v": index} for index, key in enumerate(keys)])
    app.topology("mb").wait_processed(2 * len(keys))
    expected = {key: 2 * index for index, key in enumerate(keys)}
    assert sorted(expected.items()) == app.pstate("sums").select(path.all())
    assert sorted(expected.items()) == app.pstate("inner").select(path.key("one").all())
    assert [app.pstate("sums").get(key) for key in keys] == list(expected.values())
    assert app.pstate("listed").get() == ["a", "b", "a", "b"]
