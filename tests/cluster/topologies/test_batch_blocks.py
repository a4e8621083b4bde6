"""Batch blocks on Spark: joins, grouping, sub-batches, temporary rows, branches and loops.

Everything is compared with a computation in plain Python over the same rows. Where it says
*Rama*, the rows and the results are those that Rama's documentation prints. What a test asserts
is many small PStates of one module, because each deployment costs seconds.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

import atoll
from atoll import List, Map, agg
from atoll.errors import DeclarationError

DIRECT, EXCHANGED = 20_000, 0
SHAPES = [(1, 1, DIRECT), (3, 16, EXCHANGED), (8, 256, DIRECT)]
shapes = pytest.mark.parametrize(("partitions", "vnodes", "small"), SHAPES)
few_shapes = pytest.mark.parametrize(("partitions", "vnodes", "small"), SHAPES[::2])
one_shape = pytest.mark.parametrize(("partitions", "vnodes", "small"), SHAPES[1:2])

LEFT = "k string, v long"
RIGHT = "k string, w long"


def topology(name, vnodes, small):
    """A module and its one topology."""
    module = atoll.Module(name)
    options = {"topology.microbatch.small.max.records": small}
    return module, module.microbatch("mb", vnode_count=vnodes, options=options)


class Sheet:
    """Collects streams into lists of text, one PState each."""

    def __init__(self, mb):
        self.mb = mb
        self.names = []

    def note(self, name, stream, *columns):
        """Collect the columns as one text per row; null is ``-``."""
        self.names.append(name)
        text = ", ".join(f"coalesce(cast({each} AS string), '-')" for each in columns)
        target = self.mb.pstate(name, List(str))
        stream.aggregate(target, agg.collect_list(f"concat_ws(' ', {text})"))

    def read(self, app):
        """All lists, sorted: order between tasks is not promised."""
        return {name: sorted(app.pstate(name).get() or []) for name in self.names}


def append_at_once(app, total, **rows):
    """Append rows of several depots while the topology pauses: one microbatch.

    ``total`` is how many records the topology has then processed over its life.
    """
    mb = app.topology("mb")
    mb.pause()
    for depot, each in rows.items():
        app.depot(depot).append(each)
    mb.resume()
    mb.wait_processed(total)


def texts(rows):
    """Rows as :meth:`Sheet.note` writes them."""
    return sorted(" ".join("-" if each is None else str(each) for each in row) for row in rows)


def joined(left, right, how):
    """The natural join of two lists of pairs by their first, in plain Python."""
    out = []
    for k, v in left:
        matches = [w for other, w in right if other == k and k is not None]
        out += [(k, v, w) for w in matches]
        if not matches and how in ("left", "full"):
            out.append((k, v, None))
    if how in ("right", "full"):
        known = {k for k, _ in left if k is not None}
        out += [(k, None, w) for k, w in right if k not in known]
    return out


# Joins --------------------------------------------------------------------------------------------


@shapes
def test_joins(cluster, partitions, vnodes, small):
    """Every way to join two streams, a stream with itself, and with what was grouped."""
    module, mb = topology("joins", vnodes, small)
    lefts = mb.source(module.depot("lefts", LEFT, partitions=partitions))
    rights = mb.source(module.depot("rights", RIGHT, partitions=3))
    sheet = Sheet(mb)
    for how in ("inner", "left", "right", "full"):
        sheet.note(how, lefts.join(rights, on="k", how=how), "k", "v", "w")
    sheet.note("semi", lefts.join(rights, on=["k"], how="semi"), "k", "v")
    sheet.note("anti", lefts.join(rights, "k", "anti"), "k", "v")
    renamed = rights.select("k AS other", "w")
    apart = lefts.join(renamed, on="left.k = right.other AND left.v < right.w", how="left")
    sheet.note("condition", apart, "k", "v", "other", "w")
    mixed = lefts.join(renamed.select("other AS k", "w"), on=["k", "left.v < right.w"], how="full")
    sheet.note("mixed", mixed, "k", "v", "w")
    sheet.note("self", lefts.join(lefts.select("k", "v AS w"), on="k"), "k", "v", "w")
    sums = lefts.group_by("k").agg("sum(v) AS total")
    sheet.note("sub_batch", rights.join(sums, on="k", how="left"), "k", "w", "total")
    twice = sums.join(rights.group_by("k").agg("max(w) AS most"), on="k", how="full")
    sheet.note("two_sub_batches", twice, "k", "total", "most")
    app = cluster.deploy(module)

    rng = random.Random(partitions * 1000 + vnodes)
    keys = [*"abcdef", None]
    total, expected = 0, defaultdict(list)
    for count in (5, 0, 23):
        left = [(rng.choice(keys), rng.randrange(9)) for _ in range(count + 4)]
        right = [(rng.choice(keys), rng.randrange(9)) for _ in range(count)]
        total += len(left) + len(right)
        append_at_once(
            app,
            total,
            lefts=[{"k": k, "v": v} for k, v in left],
            rights=[{"k": k, "w": w} for k, w in right],
        )
        for how in ("inner", "left", "right", "full"):
            expected[how] += joined(left, right, how)
        known = {k for k, _ in right if k is not None}
        expected["semi"] += [each for each in left if each[0] in known]
        expected["anti"] += [each for each in left if each[0] not in known]
        for k, v in left:
            found = [(k, v, o, w) for o, w in right if o == k and k is not None and v < w]
            expected["condition"] += found or [(k, v, None, None)]
            expected["mixed"] += [(k, v, w) for _, _, _, w in found] or [(k, v, None)]
        for k, w in right:
            if not any(o == k and k is not None and v < w for o, v in left):
                expected["mixed"].append((k, None, w))
        expected["self"] += joined(left, left, "inner")
        sums = defaultdict(int)
        for k, v in left:
            sums[k] += v
        most = {k: max(w for o, w in right if o == k) for k, _ in right}
        expected["sub_batch"] += [(k, w, sums.get(k) if k else None) for k, w in right]
        pairs = joined(list(sums.items()), list(most.items()), "full")
        expected["two_sub_batches"] += pairs
    assert sheet.read(app) == {name: texts(rows) for name, rows in expected.items()}


def test_a_column_of_both_sides_that_does_not_join_is_refused(cluster):
    """At deployment, by name; the hint says to rename."""
    module, mb = topology("twice", 1, DIRECT)
    one = mb.source(module.depot("one", "k string, v long"))
    total = mb.pstate("total", int)
    one.join(one, on="k").aggregate(total, agg.count())
    with pytest.raises(DeclarationError, match="join makes more than one column 'v'"):
        cluster.deploy(module)


@few_shapes
def test_join_with_a_pstate(cluster, partitions, vnodes, small):
    """The value beside each row; inner drops rows without one."""
    module, mb = topology("profiles", vnodes, small)
    names = module.depot("names", "k string, name string", partitions=partitions)
    visits = mb.source(module.depot("visits", LEFT, partitions=partitions))
    profiles = mb.pstate("profiles", Map(str, str))
    mb.source(names).aggregate(profiles["k"], agg.last("name"))
    sheet = Sheet(mb)
    sheet.note("inner", visits.join(profiles["upper(k)"]), "k", "v", "profiles")
    left = visits.join(profiles["k"], how="left", column="name")
    sheet.note("left", left.where("v > 0"), "k", "v", "name")
    app = cluster.deploy(module)
    append_at_once(app, 2, names=[{"k": "a", "name": "ann"}, {"k": "B", "name": "bob"}])
    rows = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "c", "v": 3}, {"k": "a", "v": 0}]
    append_at_once(app, 6, visits=rows)
    assert sheet.read(app) == {"inner": ["b 2 bob"], "left": ["a 1 ann", "b 2 -", "c 3 -"]}


# Groups -------------------------------------------------------------------------------------------


@shapes
def test_groups(cluster, partitions, vnodes, small):
    """By Spark SQL and by Atoll's aggregates, nested, with null keys, over several cuts."""
    module, mb = topology("groups", vnodes, small)
    rows = mb.source(module.depot("rows", "k string, v int, x double", partitions=partitions))
    sheet = Sheet(mb)
    sql = rows.group_by("k", "v % 2 AS odd").agg("sum(v) AS total", "count(1) AS n", "max('{}') m")
    sheet.note("sql", sql, "k", "odd", "total", "n", "m")
    own = rows.group_by("k", "v % 2 AS odd").agg(
        total=agg.sum("v"), n=agg.count(), mean=agg.avg("v * 2"), most=agg.max("v")
    )
    sheet.note("own", own, "k", "odd", "total", "n", "cast(mean AS long)", "most")
    sheet.note("by_float", rows.group_by("x").agg(n=agg.count()), "cast(x AS long)", "n")
    sheet.note(
        "nested",
        rows.group_by("k").agg("count(1) AS n").group_by("n").agg("count(1) AS m"),
        "n",
        "m",
    )
    words = rows.group_by("k").agg(n=agg.count()).agg(most=agg.max("n"), kinds=agg.count())
    sheet.note("nested_own", words, "most", "kinds")
    sheet.note("distinct", rows.distinct("k"), "k")
    sheet.note("distinct_rows", rows.select("k", "v").distinct(), "k", "v")
    sheet.note("distinct_more", rows.distinct("k", "v % 2 AS odd"), "k", "odd")
    app = cluster.deploy(module)

    rng = random.Random(vnodes)
    total, expected = 0, defaultdict(list)
    for count in (1, 40, 7):
        batch = [(rng.choice([*"abc", None]), rng.randrange(-3, 9)) for _ in range(count)]
        total += count
        append_at_once(app, total, rows=[{"k": k, "v": v, "x": v / 1.0} for k, v in batch])
        groups = defaultdict(list)
        for k, v in batch:
            groups[k, v - 2 * int(v / 2)].append(v)
        for (k, odd), vs in groups.items():
            expected["sql"].append((k, odd, sum(vs), len(vs), "{}"))
            expected["own"].append((k, odd, sum(vs), len(vs), int(2 * sum(vs) / len(vs)), max(vs)))
        sizes = Counter(k for k, _ in batch)
        expected["by_float"] += Counter(v for _, v in batch).items()
        expected["nested"] += Counter(sizes.values()).items()
        expected["nested_own"].append((max(sizes.values()), len(sizes)))
        expected["distinct"] += [(k,) for k in sizes]
        expected["distinct_rows"] += set(batch)
        expected["distinct_more"] += groups
    assert sheet.read(app) == {name: texts(rows) for name, rows in expected.items()}


@few_shapes
def test_global_aggregates_fire_in_every_microbatch(cluster, partitions, vnodes, small):
    """Also over a source that brought nothing, and over rows that no row reached."""
    module, mb = topology("fires", vnodes, small)
    numbers = mb.source(module.depot("numbers", "v long", partitions=partitions))
    others = mb.source(module.depot("others", "v long", partitions=partitions))
    sheet = Sheet(mb)
    sheet.note("sql", others.agg("sum(v) AS total", "count(1) AS n"), "total", "n")
    sheet.note("own", others.agg(total=agg.sum("v"), n=agg.count()), "total", "n")
    empty = numbers.where("v < 0").materialize()
    sheet.note("after_a_job", empty.agg("count(1) AS n"), "n")
    sheet.note("own_after_a_job", empty.agg(n=agg.count()).agg(m=agg.max("n")), "m")
    sheet.note("kept_out", others.group_by("v").agg("count(1) AS n"), "n")
    app = cluster.deploy(module)
    append_at_once(app, 2, numbers=[{"v": 1}, {"v": 2}])
    append_at_once(app, 4, numbers=[{"v": -1}], others=[{"v": 7}])
    assert sheet.read(app) == {
        "sql": ["- 0", "7 1"],
        "own": ["- 0", "7 1"],
        "after_a_job": ["0", "1"],
        "own_after_a_job": ["0", "1"],
        "kept_out": ["1"],
    }


# Rama's examples ----------------------------------------------------------------------------------


@few_shapes
def test_rama_batch_blocks(cluster, partitions, vnodes, small):
    """The batch-block examples with printed results: joins, merge, sub-batch, limit, group by."""
    module, mb = topology("rama", vnodes, small)
    ones = mb.source(module.depot("ones", LEFT, partitions=partitions))
    twos = mb.source(module.depot("twos", RIGHT, partitions=partitions))
    threes = mb.source(module.depot("threes", "v1 int, v2 int, v3 int", partitions=1))
    fruits = mb.source(module.depot("fruits", "f string, n long", partitions=partitions))
    sheet = Sheet(mb)
    exploded = ones.where("k = 'a'").explode("array(1, 2, 3, 4)", "e")
    sheet.note("explode", exploded.agg("count(1) AS n", "sum(e) AS s"), "n", "s")
    merged = ones.where("v < 3").select("v").union(twos.where("w < 13").select("w - 9 AS v"))
    sheet.note("merge", merged.agg(s=agg.sum("v")), "s")
    sheet.note("inner", ones.join(twos, on="k"), "k", "v", "w")
    sheet.note("left", ones.join(twos, on="k", how="left"), "k", "v", "w")
    letters = ones.where("k = 'a'").explode("array('a', 'b', 'c', 'a')", "word")
    counted = letters.group_by("word").agg(n=agg.count())
    sheet.note("word_count", counted.agg("max(n) AS most"), "most")

    def first_three(batches):
        table = pa.Table.from_batches(list(batches), schema=THREES)
        yield from table.slice(0, 3).to_batches()

    limited = threes.to_global().map_batches(first_three, emits="v1 int, v2 int, v3 int")
    sheet.note("limit", limited.agg("sum(v1) a", "sum(v3) b"), "a", "b")
    numbered = threes.select("v1", "v3", "row_number() OVER (ORDER BY v2 DESC) - 1 AS i")
    sheet.note("limit_sorted", numbered.where("i < 3"), "i", "v1", "v3")
    sheet.note("limit_sums", numbered.where("i < 3").agg("sum(v1) a", "sum(v3) b"), "a", "b")
    by_fruit = fruits.group_by("f").agg(count=agg.count(), total=agg.sum("n"))
    ranked = by_fruit.with_columns(i="row_number() OVER (ORDER BY total DESC)").where("i <= 2")
    sheet.note("group_by", ranked, "f", "count", "total")
    app = cluster.deploy(module)

    tuples = [(1, 2, 3), (10, 11, 12), (6, 4, 5), (1000, 1000, 1000)]
    apples = [("apple", 1), ("banana", 9), ("apple", 6), *[("plum", 1)] * 3]
    append_at_once(
        app,
        17,
        ones=[{"k": k, "v": v} for k, v in [("a", 1), ("b", 2), ("c", 3)]],
        twos=[{"k": k, "w": w} for k, w in [("a", 11), ("a", 12), ("c", 30), ("d", 40)]],
        threes=[dict(zip(("v1", "v2", "v3"), each, strict=True)) for each in tuples],
        fruits=[{"f": f, "n": n} for f, n in apples],
    )
    assert sheet.read(app) == {
        "explode": ["4 10"],
        "merge": ["8"],
        "inner": ["a 1 11", "a 1 12", "c 3 30"],
        "left": ["a 1 11", "a 1 12", "b 2 -", "c 3 30"],
        "word_count": ["2"],
        "limit": ["17 20"],
        "limit_sorted": ["0 1000 1000", "1 10 12", "2 6 5"],
        "limit_sums": ["1016 1017"],
        "group_by": ["apple 2 7", "banana 1 9"],
    }


THREES = pa.schema([("v1", pa.int32()), ("v2", pa.int32()), ("v3", pa.int32())])


@one_shape
def test_materialize(cluster, partitions, vnodes, small):
    """Two later blocks, in SQL and by Atoll's aggregate, read what the first computed."""
    module, mb = topology("materialized", vnodes, small)
    numbers = mb.source(module.depot("numbers", "v long", partitions=partitions))
    p1, p2 = mb.pstate("p1", int, initial=0), mb.pstate("p2", int, initial=0)
    nums = numbers.select("v AS v1", "v + 1 AS v2").materialize()
    nums.agg("sum(v1) AS v1").aggregate(p1, agg.sum("v1"))
    nums.agg(v2=agg.sum("v2")).aggregate(p2, agg.sum("v2"))
    app = cluster.deploy(module)
    app.depot("numbers").append([{"v": 1}, {"v": 2}, {"v": 3}])
    app.topology("mb").wait_processed(3)
    assert (app.pstate("p1").get(), app.pstate("p2").get()) == (6, 9)


# Control ------------------------------------------------------------------------------------------


@one_shape
def test_branches_and_loops(cluster, partitions, vnodes, small):
    """Conditions in SQL and Python; a loop over a batch block with exchanges and a state step."""
    module, mb = topology("control", vnodes, small)
    rows = mb.source(module.depot("rows", LEFT, partitions=partitions))
    sheet = Sheet(mb)
    large, odd, rest = rows.branch("v >= 5", "v % 2 = 1")
    for name, way in (("large", large), ("odd", odd), ("rest", rest)):
        sheet.note(name, way, "k", "v")
    sheet.note("python", rows.select("k", "v").where(lambda r: (r.v or 0) > 4), "k", "v")

    visits = mb.pstate("visits", Map(str, int))

    def visit(row, visits):
        visits[row.k] = visits.get(row.k, 0) + 1
        yield row.asdict()

    def body(stream):
        doubled = stream.hash_by("k").with_columns(v="v * 2")
        added = doubled.shuffle().group_by("k").agg("sum(v) AS v")
        return added.process(visit, key="k", states=[visits], emits=LEFT)

    sums = rows.group_by("k").agg("coalesce(sum(v), 0) + 3 AS v")
    sheet.note("looped", sums.loop(body, until="v >= 20", at_most=3), "k", "v")
    long = sums.loop(lambda s: s.with_columns(v="v + 1"), until="v >= 12", at_most=9)
    sheet.note("long", long, "k", "v")
    left = sums.loop(lambda s: s.with_columns(v="v * 2"), until="v >= 20", at_most=1, left="emit")
    sheet.note("left", left, "k", "v")

    def emitting(stream):
        return stream.with_columns(v="v * 2").where("v < 40"), stream.select("k", "v + 1 AS more")

    sheet.note("emitted", sums.loop(emitting, at_most=5), "k", "more")
    kinds = rows.group_by("k").agg(vs=agg.collect_set("v"), odd=agg.count_values("v % 2"))
    sheet.note("kinds", kinds.select("k", "size(vs) AS n", "odd[0] AS even"), "k", "n", "even")

    app = cluster.deploy(module)

    data = [("a", 1), ("b", 4), ("c", None), ("a", 6), ("d", 30), ("b", 7)]
    append_at_once(app, len(data), rows=[{"k": k, "v": v} for k, v in data])
    found = sheet.read(app)
    assert found["large"] == ["a 6", "b 7", "d 30"]
    assert found["odd"] == ["a 1"]
    assert found["rest"] == ["b 4", "c -"]
    assert found["python"] == ["a 6", "b 7", "d 30"]
    assert found["looped"] == ["a 20", "b 28", "c 24", "d 33"]
    assert found["long"] == ["a 12", "b 14", "c 12", "d 33"]
    assert found["left"] == ["a 20", "b 28", "c 6", "d 33"]
    told = {"a": [11, 21], "b": [15, 29], "c": [4, 7, 13, 25], "d": [34]}
    assert found["emitted"] == sorted(f"{k} {more}" for k, each in told.items() for more in each)
    assert found["kinds"] == ["a 2 1", "b 2 1", "c 0 -", "d 1 1"]
    assert app.pstate("visits").get() == {"a": 1, "b": 1, "c": 3}


def _calls(batches):
    """One row per call: how many rows it saw, and which remainders."""
    numbers = [v for batch in batches for v in batch.column("v").to_pylist()]
    made = {"n": len(numbers), "seen": str(sorted({v % 2 for v in numbers}))}
    yield pa.RecordBatch.from_pylist([made], schema=CALLS)


CALLS = pa.schema([("n", pa.int64()), ("seen", pa.string())])


def test_explicit_partitioners(cluster):
    """Of many rows on two units: where the rows of a map_batches step come together."""
    module, mb = topology("partitioners", 4, EXCHANGED)
    rows = mb.source(module.depot("rows", "v long", partitions=3))
    sheet = Sheet(mb)
    steps = {
        "all": rows.to_all(),
        "vnode": rows.to_vnode("v"),
        "negative": rows.to_vnode("-v"),
        "function": rows.partition_by(lambda row: row.v + 1),
        "global": rows.to_global(),
    }
    for name, step in steps.items():
        sheet.note(name, step.map_batches(_calls, emits="n long, seen string"), "n", "seen")
    app = cluster.deploy(module)
    append_at_once(app, 12_000, rows=[{"v": v} for v in range(12_000)])
    halves = ["6000 [0]", "6000 [1]"]
    assert sheet.read(app) == {
        "all": ["12000 [0, 1]"] * 2,
        "vnode": halves,
        "negative": halves,
        "function": halves,
        "global": ["12000 [0, 1]"],
    }


# Two phases ---------------------------------------------------------------------------------------

ROWS, DEPOT_PARTITIONS = 64_000, 64


@pytest.mark.slow
def test_64_000_rows_cross_as_a_partial_per_task(cluster, monkeypatch):
    """Into a global PState, and by Atoll's own aggregates: what the actors receive is counted."""
    from atoll.spark.executor import SparkExecutor

    received = []
    real = SparkExecutor._ran

    def counting(self, limit, job, spec):
        outcome = real(self, limit, job, spec)
        received.append((len(spec.splits), sum(each.rows for each in outcome.manifests)))
        return outcome

    monkeypatch.setattr(SparkExecutor, "_ran", counting)
    module, mb = topology("phases", 16, EXCHANGED)
    rows = mb.source(module.depot("rows", "v long", partitions=DEPOT_PARTITIONS))
    total, again = mb.pstate("total", int), mb.pstate("again", int)
    rows.aggregate(total, agg.sum("v"))
    rows.agg(v=agg.sum("v"), n=agg.count()).aggregate(again, agg.sum("v + n"))
    app = cluster.deploy(module)
    append_at_once(app, ROWS, rows=[{"v": v} for v in range(ROWS)])
    assert app.pstate("total").get() == sum(range(ROWS))
    assert app.pstate("again").get() == sum(range(ROWS)) + ROWS
    (tasks, crossed), (_, after) = received
    assert tasks > 1
    assert crossed == 2 * tasks  # one partial per reading task for each of the two
    assert crossed <= 2 * DEPOT_PARTITIONS
    assert after == 1


def test_sparks_plan_of_agg_has_partial_aggregates(cluster):
    """64,000 rows in 64 tasks cross Spark's exchange as 64, and by 5 keys as at most 320."""
    from atoll.steps.group_agg.declare import GroupAgg

    frame = cluster._engine.session.range(0, ROWS, 1, DEPOT_PARTITIONS).selectExpr(
        "id AS v", "id % 5 AS k"
    )
    for keys, most, expected in (((), 64, 1), (("k",), 320, 5)):
        made = GroupAgg((), "", keys, ("sum(v) AS total",)).apply([frame], 2)
        assert len(made.collect()) == expected
        plan = made._jdf.queryExecution().executedPlan()
        assert "partial_sum" in plan.toString()
        assert _written(plan) == most


def _written(plan):
    """How many records the plan's one exchange wrote."""
    if plan.nodeName() == "Exchange":
        return plan.metrics().get("shuffleRecordsWritten").get().value()
    children = plan.children()
    return max((_written(children.apply(at)) for at in range(children.size())), default=0)
