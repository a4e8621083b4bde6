"""Records that no attempt can process: named in full, set aside once, never tried ten times.

Without Spark: null keys, values that do not fit, totals that overflow, rows that a depot refuses.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest

import atoll
from atoll import Map, agg
from atoll.errors import TopologyFailedError

DDL = "k string, v long, n long"
MOST = 2**63 - 1
OPTIONS = {"topology.microbatch.retry.delay.max.millis": 1}


@pytest.fixture
def inline(tmp_path):
    """A cluster without Spark."""
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as running:
        yield running


def _keeping(row, sums):
    sums[row.k] = row.v


def _passing(row, seen):
    seen[row.n] = row.v
    yield row.asdict()


def _sums(mb, name="sums"):
    return mb.pstate(name, Map(str, int))


def _nested(mb):
    return mb.pstate("sums", Map(int, Map(str, int)))


STEPS = {
    "aggregate": lambda mb, rows: rows.aggregate(_sums(mb)["k"], agg.sum("v")),
    "second key": lambda mb, rows: rows.aggregate(_nested(mb)["n"]["k"], agg.sum("v")),
    "lookup": lambda mb, rows: rows.lookup(_sums(mb)["k"], "known").aggregate(
        mb.pstate("count", int), agg.count()
    ),
    "process": lambda mb, rows: rows.process(_keeping, key="k", states=[_sums(mb)]),
    "later job": lambda mb, rows: rows.process(
        _passing, key="n", states=[mb.pstate("seen", Map(int, int))], emits=DDL
    ).aggregate(_sums(mb)["k"], agg.sum("v")),
    "after materialize": lambda mb, rows: rows.materialize().aggregate(
        _sums(mb)["k"], agg.sum("v")
    ),
}


def _module(build, dead=True, ddl=DDL, partitions=3, **options):
    module = atoll.Module("bad")
    rows = module.depot("rows", ddl, partitions=partitions)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch(
        "mb", vnode_count=4, dead_letter=rejected if dead else None, options=OPTIONS | options
    )
    build(mb, mb.source(rows))
    return module


def _fill(app, records, seed=1):
    """Append in pieces; where each record lies."""
    rand, depot, at = random.Random(seed), app.depot("rows"), 0
    while at < len(records):
        size = rand.choice([1, 3, 20, 70])
        depot.append(records[at : at + size])
        at += size
    return {
        (partition, offset): row
        for partition, end in enumerate(depot.end_offsets())
        for offset, row in enumerate(depot.read(partition, 0, end).to_pylist())
    }


def _rejected(app):
    depot = app.depot("rejected")
    ends = depot.end_offsets()
    return [row for p, end in enumerate(ends) for row in depot.read(p, 0, end).to_pylist()]


def _place(row):
    return row["depot_partition"], row["record_offset"]


def _records(count, every):
    records = [{"k": f"k{n % 7}", "v": n, "n": n % 5} for n in range(count)]
    for each in records[every // 2 :: every]:
        each["k"] = None
    return records


@pytest.mark.parametrize("step", STEPS)
def test_records_without_a_key_are_set_aside(inline, step):
    """Exactly those, each under its own place and with itself; the others are processed."""
    app = inline.deploy(_module(STEPS[step]))
    where = _fill(app, _records(120, 10))
    app.topology("mb").wait_processed(120)
    rejected = _rejected(app)
    bad = {place: row for place, row in where.items() if row["k"] is None}
    assert sorted(map(_place, rejected)) == sorted(bad)
    for each in rejected:
        assert json.loads(each["row"]) == bad[_place(each)]
        assert (each["topology"], each["depot"]) == ("mb", "rows")
        assert each["operator"] in step.replace("later job", "aggregate").replace(
            "after materialize", "aggregate").replace("second key", "aggregate")  # fmt: skip
        assert each["line"].startswith("test_bad_records.py:")
        assert "is null, which str does not allow" in each["error"]
    if step in ("aggregate", "later job", "after materialize"):
        sums = {}
        for row in where.values():
            if row["k"] is not None:
                sums[row["k"]] = sums.get(row["k"], 0) + row["v"]
        assert app.pstate("sums").get() == sums


@pytest.mark.parametrize("step", STEPS)
def test_without_a_dead_letter_depot_the_first_is_named_at_once(inline, step):
    """One attempt meets it, one finds it: no third, whatever the limit is."""
    app = inline.deploy(_module(STEPS[step], dead=False))
    app.topology("mb").pause()
    where = _fill(app, _records(60, 20))
    app.topology("mb").resume()
    with pytest.raises(TopologyFailedError) as caught:
        app.topology("mb").wait_processed(60)
    status = app.topology("mb").status()
    assert status["version"] == 2
    assert status["error"]["code"] == "E-DATA"
    context = caught.value.context
    bad = {place: row for place, row in where.items() if row["k"] is None}
    named = int(context["depot_partition"]), int(context["record_offset"])
    assert named in bad
    assert (context["depot"], context["topology"], context["column"]) == ("rows", "mb", "k")
    assert context["microbatch"] == "1"
    assert context["declared"].startswith("test_bad_records.py:")
    assert f"n={bad[named]['n']}" in context["row"]


def test_a_total_that_does_not_fit(inline):
    """The first record, in append order, that it cannot take; what comes after it may fit again."""

    def build(mb, rows):
        rows.aggregate(_sums(mb)["k"], agg.sum("v"))
        rows.aggregate(mb.pstate("count", Map(str, int))["k"], agg.count())

    app = inline.deploy(_module(build, partitions=1))
    app.topology("mb").pause()
    values = [
        ("a", MOST - 2),
        ("b", 5),
        ("a", 2),
        ("a", 1),
        ("a", 1),
        ("b", 6),
        ("a", -1),
        ("a", 5),
    ]
    app.depot("rows").append([{"k": k, "v": v} for k, v in values])
    app.topology("mb").resume()
    app.topology("mb").wait_processed(len(values))
    assert [each["record_offset"] for each in _rejected(app)] == [3, 4, 7]
    assert app.pstate("sums").get() == {"a": MOST - 1, "b": 11}
    assert app.pstate("count").get() == {"a": 6, "b": 2}, "each step for itself"
    app.depot("rows").append([{"k": "a", "v": 2}, {"k": "b", "v": 1}])
    app.topology("mb").wait_processed(len(values) + 2)
    assert [each["record_offset"] for each in _rejected(app)] == [3, 4, 7, 8]
    assert app.pstate("sums").get() == {"a": MOST - 1, "b": 12}
    assert "went beyond the range of 64-bit ints" in _rejected(app)[0]["error"]
    assert json.loads(_rejected(app)[0]["row"]) == {"k": "a", "v": 1, "n": None}


def test_a_total_whose_parts_alone_do_not_fit(inline):
    """It fits when it is taken as a whole: then nothing is set aside."""
    build = STEPS["aggregate"]
    options = {"topology.combiner.limit": 2}
    app = inline.deploy(_module(build, partitions=1, **options))
    app.topology("mb").pause()
    app.depot("rows").append([{"k": "a", "v": v} for v in (MOST, 7, -5, -3)])
    app.topology("mb").resume()
    app.topology("mb").wait_processed(4)
    assert _rejected(app) == []
    assert app.pstate("sums").get("a") == MOST - 1


def test_a_total_of_a_group_in_a_microbatch(inline):
    """A fold keeps nothing between microbatches, and its records are found as well."""

    def build(mb, rows):
        totals = rows.group_by("k").agg(total=agg.sum("v"), rows=agg.count())
        totals.aggregate(mb.pstate("total", Map(str, int))["k"], agg.last("total"))
        totals.aggregate(mb.pstate("rows", Map(str, int))["k"], agg.last("rows"))

    app = inline.deploy(_module(build, partitions=1))
    app.topology("mb").pause()
    app.depot("rows").append([{"k": "a", "v": MOST}, {"k": "a", "v": 1}, {"k": "b", "v": 3}])
    app.topology("mb").resume()
    app.topology("mb").wait_processed(3)
    assert [_place(each) for each in _rejected(app)] == [(0, 1)]
    assert app.pstate("total").get() == {"a": MOST, "b": 3}
    assert app.pstate("rows").get() == {"a": 1, "b": 1}


def test_a_total_names_its_record_where_none_are_set_aside(inline):
    """Topology, step with its line, depot, partition, offset and row."""
    build = STEPS["aggregate"]
    app = inline.deploy(_module(build, dead=False, partitions=1))
    app.topology("mb").pause()
    app.depot("rows").append([{"k": "a", "v": v} for v in (1, MOST, 5)])
    app.topology("mb").resume()
    with pytest.raises(TopologyFailedError) as caught:
        app.topology("mb").wait_processed(3)
    context = caught.value.context
    assert (context["depot_partition"], context["record_offset"]) == ("0", "1")
    assert context["row"] == f"Row(k='a', v={MOST}, n=None)"
    assert (context["operator"], context["aggregate"]) == ("aggregate", "sum(v)")
    assert app.topology("mb").status()["version"] == 2


def test_a_value_that_a_pstate_cannot_keep(inline):
    """A decimal with more digits than a PState keeps is its record's fault."""

    def build(mb, rows):
        rows.aggregate(mb.pstate("sums", Map(str, Decimal))["k"], agg.sum("v"))

    app = inline.deploy(_module(build, ddl="k string, v decimal(38, 2)"))
    rows = [
        {"k": "a", "v": Decimal("1.25")},
        {"k": "a", "v": Decimal("9" * 30)},
        {"k": "b", "v": Decimal("2.50")},
    ]
    app.depot("rows").append(rows)
    app.topology("mb").wait_processed(3)
    (only,) = _rejected(app)
    assert "9" * 30 in only["row"]
    assert app.pstate("sums").get() == {"a": Decimal("1.25"), "b": Decimal("2.5")}


def test_rows_that_a_depot_refuses(inline):
    """``append_to`` a depot that wants a value: the others are appended, exactly once."""

    def build(mb, rows):
        rows.append_to(target)

    module = atoll.Module("bad")
    rows = module.depot("rows", DDL, partitions=3)
    target = module.depot("target", "k string NOT NULL, v long", partitions=2)
    rejected = module.dead_letter_depot("rejected")
    mb = module.microbatch("mb", vnode_count=4, dead_letter=rejected, options=OPTIONS)
    build(mb, mb.source(rows).select("k", "v"))
    app = inline.deploy(module)
    where = _fill(app, _records(90, 10))
    app.topology("mb").wait_processed(90)
    bad = sorted(place for place, row in where.items() if row["k"] is None)
    assert sorted(map(_place, _rejected(app))) == bad
    assert {each["operator"] for each in _rejected(app)} == {"append_to"}
    assert sum(app.depot("target").end_offsets()) == 90 - len(bad)


def test_a_thousand_of_many(inline):
    """They cost one more attempt, not one each."""
    app = inline.deploy(_module(lambda mb, rows: rows.aggregate(_sums(mb)["k"], agg.sum("v"))))
    app.topology("mb").pause()
    app.depot("rows").append(_records(20_000, 20))
    app.topology("mb").resume()
    app.topology("mb").wait_processed(20_000)
    assert len(_rejected(app)) == 1_000
    assert len(set(map(_place, _rejected(app)))) == 1_000


def test_a_function_of_the_users_is_tried_as_often_as_ever(inline):
    """It may have asked somebody else: also where it writes what does not fit."""

    def wrong(row, sums):
        sums[row.k] = "no number"

    def build(mb, rows):
        rows.process(wrong, key="k", states=[_sums(mb)])

    options = {"topology.microbatch.retry.max.attempts": 4}
    app = inline.deploy(_module(build, dead=False, **options))
    app.depot("rows").append([{"k": "a", "v": 1}])
    with pytest.raises(TopologyFailedError):
        app.topology("mb").wait_processed(1)
    assert app.topology("mb").status()["version"] == 4


def test_resume_and_a_mended_module_go_on(inline):
    """A topology that failed at once waits for its user, as any other that failed."""
    build = STEPS["aggregate"]
    app = inline.deploy(_module(build, dead=False))
    app.depot("rows").append([{"k": "a", "v": 1}, {"k": None, "v": 2}])
    for version in (2, 4):
        with pytest.raises(TopologyFailedError):
            app.topology("mb").wait_processed(2)
        assert app.topology("mb").status()["version"] == version
        app.topology("mb").resume() if version == 2 else None
    app = inline.deploy(_module(build))
    app.topology("mb").wait_processed(2)
    assert app.pstate("sums").get() == {"a": 1}
    assert len(_rejected(app)) == 1
