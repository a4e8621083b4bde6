"""Records on which a user's function raises: named exactly, and set aside exactly once.

Every case appends records in several appends to several depot partitions, so that microbatches
cut blocks and tasks, and checks what is set aside against what was appended.
"""

from __future__ import annotations

import json
import random
import threading

import pytest

import atoll
from atoll import Map, agg
from atoll.errors import TopologyFailedError

DDL = "k long, v long"
SMALL = {
    "depot.microbatch.max.records": 60,
    "topology.microbatch.retry.max.attempts": 2,
    "topology.microbatch.retry.delay.max.millis": 1,
}


def _good(row):
    if row.v < 0:
        raise ValueError(f"bad {row.v}")
    return {"k": row.k, "v": row.v}


def _good_many(row):
    yield {"k": row.k, "v": 1}
    yield _good(row)


def _good_batches(batches):
    for batch in batches:
        for value in batch.column("v").to_pylist():
            if value < 0:
                raise ValueError(f"bad {value}")
        yield batch


def _add(row, sums):
    sums[row.k] = sums.get(row.k, 0) + row.v
    assert len(sums) > 0  # scans: what was written is flushed
    yield {"k": row.k, "v": row.v}
    _good(row)


def _add_last(row, sums):
    sums[row.k] = sums.get(row.k, 0) + row.v
    _good(row)


def _pass(row, sums):
    yield row.asdict()


def _declare(name, step, dead=True, options=SMALL):
    """A module whose function sits where ``step`` says."""
    module = atoll.Module(name)
    rows = module.depot("rows", DDL, partition_by="k", partitions=3)
    rejected = module.dead_letter_depot("rejected", partitions=2)
    mb = module.microbatch(
        "mb", vnode_count=4, options=options, dead_letter=rejected if dead else None
    )
    sums = mb.pstate("sums", Map(int, int))
    source = mb.source(rows)
    total = sums["k"], agg.sum("v")
    match step:
        case "map":
            source.map(_good, emits=DDL).aggregate(*total)
        case "flat_map":
            source.flat_map(_good_many, emits=DDL).aggregate(*total)
        case "map_batches":
            source.map_batches(_good_batches, emits=DDL).aggregate(*total)
        case "columns_map":
            some = source.where("v != 0").select("*", "v * 2 AS twice").with_columns(w="v")
            some.select("k", "v", "w").map(_good, emits=DDL).aggregate(*total)
        case "map_columns":
            some = source.map(_good, emits="k long NOT NULL, v long").where("v != 0")
            some.aggregate(*total)
            counts = mb.pstate("counts", Map(int, int))
            some.select("k").aggregate(counts["k"], agg.count())
        case "twice":
            some = source.map(_good, emits=DDL)
            some.aggregate(*total)
            counts = mb.pstate("counts", Map(int, int))
            some.map(_good, emits=DDL).aggregate(counts["k"], agg.count())
            some.where("v != 0").aggregate(mb.pstate("more", Map(int, int))["k"], agg.count())
        case "process":
            source.process(_add_last, key="k", states=[sums])
        case "process_scanning":
            seen = mb.pstate("seen", Map(int, int))
            some = source.process(_add, key="k", states=[sums], emits=DDL)
            some.aggregate(seen["k"], agg.sum("v"))
        case "process_second":
            seen = mb.pstate("seen", Map(int, int))
            some = source.process(_pass, key="k", states=[seen], emits=DDL)
            some.process(_add_last, key="k", states=[sums])
    return module


def _fill(app, records, seed):
    """Append in pieces of random sizes; where each record lies, by depot partition."""
    rand = random.Random(seed)
    depot = app.depot("rows")
    at = 0
    while at < len(records):
        size = rand.choice([1, 3, 20, 70])
        depot.append(records[at : at + size])
        at += size
    return {
        (partition, offset): (row["k"], row["v"])
        for partition, end in enumerate(depot.end_offsets())
        for offset, row in enumerate(depot.read(partition, 0, end).to_pylist())
    }


def _rejected(app):
    depot = app.depot("rejected")
    ends = depot.end_offsets()
    return [row for p, end in enumerate(ends) for row in depot.read(p, 0, end).to_pylist()]


def _records(count, every, seed):
    rand = random.Random(seed)
    records = [{"k": rand.randrange(9), "v": rand.randrange(1, 99)} for _ in range(count)]
    for each in records[every // 2 :: every]:
        each["v"] = -each["v"]
    return records


STEPS = [
    "map", "flat_map", "map_batches", "columns_map", "map_columns", "twice",
    "process", "process_scanning", "process_second",
]  # fmt: skip


@pytest.mark.parametrize(("step", "every"), [(s, 10) for s in STEPS] + [("map", 1), ("process", 1)])
def test_bad_rows_are_set_aside_once(cluster, step, every):
    """One in ten and all: each under its own place, and the state is the fold of the others."""
    app = cluster.deploy(_declare(f"poison-{step.replace('_', '-')}-{every}", step))
    records = _records(150, every, seed=7)
    where = _fill(app, records, seed=7)
    app.topology("mb").wait_processed(len(records))
    bad = {place: values for place, values in where.items() if values[1] < 0}
    assert len(bad) == len(records) // every
    rejected = _rejected(app)
    found = sorted((r["depot_partition"], r["record_offset"]) for r in rejected)
    assert found == sorted(bad)
    for each in rejected:
        k, v = bad[each["depot_partition"], each["record_offset"]]
        row = json.loads(each["row"])
        assert (row["k"], row["v"]) == (k, v)
        assert "__atoll_origin" not in row
        assert each["error"] == f"ValueError: bad {v}"
        assert (each["depot"], each["topology"]) == ("rows", "mb")
        assert each["operator"] == {"columns_map": "map", "map_columns": "map", "twice": "map"}.get(
            step, step.split("_s")[0]
        )
        assert "test_poison.py:" in each["line"]
        assert each["microbatch"] >= 1
    sums = {}
    for k, v in where.values():
        if v > 0:
            sums[k] = sums.get(k, 0) + v + (step == "flat_map")
    state = dict(app.pstate("sums").select(atoll.path.all()))
    assert state == sums
    if step == "process_scanning":
        assert dict(app.pstate("seen").select(atoll.path.all())) == sums


def test_one_bad_row_of_many(cluster):
    """And without any other there is nothing in the depot."""
    app = cluster.deploy(_declare("poison-one", "map"))
    records = _records(100, 1_000, seed=3)
    where = _fill(app, records, seed=3)
    app.topology("mb").wait_processed(100)
    assert _rejected(app) == []
    app.depot("rows").append([{"k": 1, "v": -5}])
    app.topology("mb").wait_processed(101)
    (only,) = _rejected(app)
    partition = only["depot_partition"]
    last = app.depot("rows").end_offsets()[partition] - 1
    assert (only["record_offset"], json.loads(only["row"])) == (last, {"k": 1, "v": -5})
    assert where[partition, last - 1][0] is not None


@pytest.mark.parametrize("step", ["map", "map_columns", "process_second"])
def test_an_attempt_that_is_lost_sets_nothing_aside(cluster, step, monkeypatch):
    """Its rows were written down, but only those of the attempt that committed count."""
    from atoll.spark.executor import SparkExecutor

    done = threading.Event()
    real = SparkExecutor.run

    def once_lost(self, *arguments):
        outcome = real(self, *arguments)
        if not done.is_set():
            done.set()
            assert any(m.appends for job in outcome.jobs for m in job.manifests)
            raise OSError("lost after its work")
        return outcome

    monkeypatch.setattr(SparkExecutor, "run", once_lost)
    app = cluster.deploy(_declare(f"poison-lost-{step.replace('_', '-')}", step))
    app.depot("rows").append([{"k": 1, "v": -1}, {"k": 1, "v": 2}, {"k": 2, "v": 3}])
    app.topology("mb").wait_processed(3)
    assert done.is_set()
    assert [json.loads(row["row"])["v"] for row in _rejected(app)] == [-1]
    assert dict(app.pstate("sums").select(atoll.path.all())) == {1: 2, 2: 3}


def test_the_failed_topology_names_the_record_and_goes_on_when_mended(cluster, tmp_path):
    """The default: the error says which record; a mended module goes on from where it was."""
    calls = tmp_path / "calls"

    def risky(row):
        if row.v < 0:
            with calls.open("a") as file:
                file.write("x")
            raise ValueError("negative")
        return {"k": row.k, "v": row.v}

    def declare(function):
        module = atoll.Module("poison-mend")
        rows = module.depot("rows", DDL, partition_by="k", partitions=3)
        mb = module.microbatch("mb", vnode_count=4, options=SMALL)
        sums = mb.pstate("sums", Map(int, int))
        mb.source(rows).map(function, emits=DDL).where("v IS NOT NULL").aggregate(
            sums["k"], agg.sum("v")
        )
        return module

    app = cluster.deploy(declare(risky))
    where = _fill(app, [{"k": n % 9, "v": n} for n in range(30)], seed=1)
    app.topology("mb").wait_processed(30)
    before = dict(app.pstate("sums").select(atoll.path.all()))
    more = _fill(app, [{"k": n % 9, "v": n if n != 17 else -17} for n in range(40)], seed=2)
    with pytest.raises(TopologyFailedError) as caught:
        app.topology("mb").wait_processed(70)
    context = caught.value.context
    (place,) = [place for place, values in more.items() if values[1] == -17]
    named = (context["depot"], int(context["depot_partition"]), int(context["record_offset"]))
    assert named == ("rows", *place)
    assert (context["topology"], context["operator"]) == ("mb", "map")
    assert int(context["microbatch"]) == app.topology("mb").status()["committed"] + 1
    assert "test_poison.py:" in context["line"]
    assert context["row"] == "Row(k=8, v=-17)"
    assert calls.read_text() == "x" * 2  # once in each attempt, however often Spark starts it
    assert where.items() <= more.items()
    done = app.topology("mb").status()["processed"]
    shown = dict(app.pstate("sums").select(atoll.path.all()))
    if done == 30:
        assert shown == before

    app = cluster.deploy(declare(lambda row: {"k": row.k, "v": abs(row.v)}))
    app.topology("mb").wait_processed(70)
    sums = {}
    for k, v in more.values():
        sums[k] = sums.get(k, 0) + abs(v)
    assert dict(app.pstate("sums").select(atoll.path.all())) == sums


def test_batches_that_no_row_alone_explains_fail(cluster):
    """A batch function that raises on none of the single rows fails the attempt."""

    def needs_ten(batches):
        held = list(batches)
        if sum(batch.num_rows for batch in held) > 1:
            raise ValueError("too many")
        yield from held

    module = atoll.Module("poison-batches")
    rows = module.depot("rows", DDL, partitions=1)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=4, options=SMALL, dead_letter=rejected)
    sums = mb.pstate("sums", Map(int, int))
    mb.source(rows).map_batches(needs_ten, emits=DDL).aggregate(sums["k"], agg.sum("v"))
    app = cluster.deploy(module)
    app.depot("rows").append([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    with pytest.raises(TopologyFailedError) as caught:
        app.topology("mb").wait_processed(2)
    assert caught.value.context["record_offset"] == "0 to 1"
    assert _rejected(app) == []


def test_which_steps_pass_the_record_on(cluster):
    """Spark's steps that can do; expressions over all columns never see the hidden one."""

    def reject(row):
        assert "atoll" not in repr(row)
        raise ValueError("no")

    module = atoll.Module("poison-steps")
    rows = module.depot("rows", DDL, partition_by="k", partitions=3)
    others = module.depot("others", DDL, partitions=1)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=4, dead_letter=rejected)
    sums = mb.pstate("sums", Map(int, int))
    both = mb.source(others).union(mb.source(rows))
    spread = both.explode("array(v, v + 1)", "w").hash_by("k").shuffle().lookup(sums["k"], "s")
    every = mb.source(rows).with_columns(text="to_json(struct(*))")
    counted = mb.source(rows).select("count(*) AS n")
    for index, stream in enumerate((spread, every, counted)):
        stream.map(reject, emits=DDL).aggregate(
            mb.pstate(f"state{index}", Map(int, int))["k"], agg.count()
        )
    app = cluster.deploy(module)
    app.topology("mb").pause()
    app.depot("others").append([{"k": 1, "v": 10}])
    where = _fill(app, [{"k": n, "v": 100 + n} for n in range(8)], seed=5)
    app.topology("mb").resume()
    app.topology("mb").wait_processed(9)
    found = {"w": [], "text": [], "n": []}
    for each in _rejected(app):
        row = json.loads(each["row"])
        (kind,) = found.keys() & row.keys()
        found[kind].append((row, each))
    expected = {("others", 0, 0): 10} | {("rows", *place): v for place, (_, v) in where.items()}
    places = [(e["depot"], e["depot_partition"], e["record_offset"]) for _, e in found["w"]]
    assert sorted(places) == sorted([*expected, *expected])
    for place, (row, _) in zip(places, found["w"], strict=True):
        assert expected[place] == row["v"]
    for row, each in found["text"]:
        assert json.loads(row["text"]) == {"k": row["k"], "v": row["v"]}
        assert each["record_offset"] is each["depot"] is None
    assert len(found["text"]) == 8
    assert sum(row["n"] for row, _ in found["n"]) == 8
