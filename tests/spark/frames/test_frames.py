"""A job's frames serve all its microbatches, where they may; none sees what another one read."""

from __future__ import annotations

import random

import pytest

import atoll
from atoll import Map, agg, start
from atoll.spark import executor as executors
from atoll.spark.frames.job import JobFrames
from atoll.spark.jobs import handing
from atoll.testing import TopologyTestDriver

ROW = "k string, v long not null, w long not null"
MICROBATCHES = 4


@pytest.fixture
def built(monkeypatch):
    """How often the frames of a job are built."""
    made = []

    class Counted(JobFrames):
        def __init__(self, *parts):
            super().__init__(*parts)
            made.append(self)

    monkeypatch.setattr(executors, "JobFrames", Counted)
    return made


def run(make, emitted="k string, v long", partitions=1, keys=("a", "b")):
    """What comes out of a row for each key in each of some microbatches."""
    module = atoll.Module("frames")
    rows = module.depot("rows", ROW, partitions=partitions)
    out = module.depot("out", emitted, partitions=1)
    mb = module.microbatch("mb", vnode_count=4, columns="spark")
    make(mb, mb.source(rows, start_from=start.beginning()), out)
    with TopologyTestDriver(module, engine="spark") as driver:
        for number in range(MICROBATCHES):
            batch = [{"k": each, "v": number, "w": -number} for each in keys]
            driver.depot("rows").append(batch)
            driver.run_until_idle()
        end = driver.depot("out").end_offsets()[0]
        return driver.depot("out").read(0, 0, end).to_pylist()


def test_one_plan_for_all_microbatches(built):
    """Every microbatch reads what is its own, though the plan is that of the first."""

    def make(mb, rows, out):
        rows.select("k", "v * 10 AS v").append_to(out)

    found = run(make)
    expected = [{"k": key, "v": 10 * number} for number in range(MICROBATCHES) for key in "ab"]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert len(built) == 1
    assert built[0].lasting


def test_unused_columns_are_not_read(built):
    """Not even where the schema allows no null in them; the expression sees the others."""

    def make(mb, rows, out):
        rows.where("v % 2 = 0").with_columns(k="upper(k)").select("k", "v").append_to(out)

    found = run(make)
    assert {row["k"] for row in found} == {"A", "B"}
    assert {row["v"] for row in found} == {0, 2}
    (frames,) = built
    assert frames.used == {"read 0": {"k", "v"}}


def test_aggregates_read_what_they_use(built):
    """Rows reach a state step by its own columns, computed ones too."""
    seen = {}

    def make(mb, rows, out):
        sums = mb.pstate("sums", Map(str, int))
        rows.with_columns(key="concat(k, '!')").aggregate(sums["key"], agg.sum("v + 1"))
        seen["changes"] = sums.changes()
        seen["changes"].select("key AS k", "new AS v").append_to(out)

    found = run(make)
    assert {row["k"]: row["v"] for row in found[-2:]} == {"a!": 10, "b!": 10}
    assert any(frames.used == {"read 0": {"k", "v"}} for frames in built)


def test_chance_is_drawn_anew(built):
    """A plan with a seed in it serves one microbatch."""

    def make(mb, rows, out):
        rows.select("k", "cast(rand() * 1e12 AS long) AS v").append_to(out)

    found = run(make)
    assert len({row["v"] for row in found}) == 2 * MICROBATCHES
    assert len(built) == MICROBATCHES


def test_a_transform_is_called_for_each_microbatch(built):
    """It may look at the clock or at files, so nothing of it is kept."""
    calls = []

    def make(mb, rows, out):
        def change(frame):
            calls.append(1)
            return frame.selectExpr("k", f"v * 0 + {len(calls)} AS v")

        rows.transform(change).append_to(out)

    found = run(make)
    assert len({row["v"] for row in found}) == MICROBATCHES


def test_a_transform_that_raised_is_called_again(built):
    """What was built before it raised serves nobody."""
    calls = []

    def make(mb, rows, out):
        def change(frame):
            calls.append(1)
            if len(calls) in (2, 4):  # the first call is the deployment's
                raise ConnectionError("no catalog")
            return frame.selectExpr("k", "v")

        rows.where("v >= 0").transform(change).append_to(out)

    assert len(run(make)) == 2 * MICROBATCHES
    assert len(calls) > MICROBATCHES


def test_a_long_spec_goes_through_a_file(monkeypatch):
    """Spark sends the properties of a job with each of its tasks."""
    parked = []

    def park(*parts):
        parked.append(handing_park(*parts))
        return parked[-1]

    handing_park = handing.park
    monkeypatch.setattr(handing, "INLINE_BYTES_MAX", 100)
    monkeypatch.setattr(handing, "park", park)

    def make(mb, rows, out):
        rows.select("k", "v + 0 AS v").append_to(out)

    assert len(run(make, partitions=3)) == 2 * MICROBATCHES
    assert len(parked) == MICROBATCHES


@pytest.mark.parametrize("bytes_max", [1_000, 1_000_000])
def test_long_rows_move_few_at_a_time(monkeypatch, bytes_max):
    """As many as take so many bytes in their depot."""
    monkeypatch.setattr(executors, "_TRANSFER_BYTES_MAX", bytes_max)
    chance = random.Random(1)
    keys = [f"{chance.getrandbits(1200):x}" for _ in range(12)]

    def counted(batches):
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"k": ["rows"], "v": [batch.num_rows]})

    def make(mb, rows, out):
        rows.transform(lambda frame: frame.mapInArrow(counted, "k string, v long")).append_to(out)

    moved = [row["v"] for row in run(make, keys=keys)]
    assert sum(moved) == len(keys) * MICROBATCHES
    if bytes_max == 1_000:
        assert max(moved) < len(keys) / 2
    else:
        assert set(moved) == {len(keys)}
