"""Aggregates below a place, and those that delete: whole topologies against plain Python.

Every module runs without Spark, on several numbers of vnodes, parallel units and depot
partitions, its records cut into microbatches at random; the result must not know of it.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg
from atoll.errors import DeclarationError
from atoll.schema import as_node

DDL = "g string, h int, tag string, v long, gone boolean, m map<string, bigint>"


def some_rows(seed, count=90):
    """Records of three groups, with nulls."""
    chooser = random.Random(seed)
    return [
        {
            "g": chooser.choice("abc"),
            "h": chooser.randrange(4),
            "tag": chooser.choice(["x", "y", "z", "", None]),
            "v": chooser.choice([None, *range(-5, 6)]),
            "gone": chooser.choice([True, False, False, None]),
            "m": chooser.choice([None, {}, {"k": 1}, {"k": None, "l": chooser.randrange(9)}]),
        }
        for _ in range(count)
    ]


def groups_of(rows):
    """The rows by group, in their order."""
    found = defaultdict(list)
    for row in rows:
        found[row["g"]].append(row)
    return found


def by_tag(rows):
    """The rows by tag, null left out."""
    found = defaultdict(list)
    for row in rows:
        if row["tag"] is not None:
            found[row["tag"]].append(row)
    return found


def run(declare, rows, seed, tmp_path, engine="inline"):
    """What each PState holds at the end, for one random cluster and cut."""
    chooser = random.Random(seed)
    module = atoll.Module("m")
    depot = module.depot("rows", DDL, partition_by="g", partitions=chooser.choice([1, 3]))
    mb = module.microbatch("mb", vnode_count=chooser.choice([1, 4, 16]))
    declare(mb, mb.source(depot))
    units = chooser.choice([1, 2, 3])
    with atoll.LocalCluster(tmp_path / str(seed), engine=engine, parallelism=units) as cluster:
        app = cluster.deploy(module)
        at = 0
        while at < len(rows):
            size = chooser.choice([1, 5, 40, 200] if engine == "inline" else [40, 200])
            app.depot("rows").append(rows[at : at + size])
            at = min(at + size, len(rows))
            app.topology("mb").wait_processed(at)
        return {name: app.pstate(name).get() for name in mb.graph.pstates}


def held(values):
    """The values that are not None."""
    return [value for value in values if value is not None]


@pytest.mark.parametrize("seed", range(6))
def test_maps_of_aggregates(seed, tmp_path):
    """Counted values, maps from rows, maps merged, and a map at the top level."""

    def declare(mb, rows):
        counts = mb.pstate("counts", Map(str, Map(str, int)))
        rows.aggregate(counts["g"], agg.count_values("tag"))
        totals = mb.pstate("totals", Map(str, int | None))
        rows.aggregate(totals, agg.map("tag", agg.sum("v")))
        latest = mb.pstate("latest", Map(str, Map(str | None, int | None)))
        rows.aggregate(latest["g"], agg.map_from("tag", "v"))
        merged = mb.pstate("merged", Map(str, Map(str, int | None)))
        rows.aggregate(merged["g"], agg.merge_map("m"))

    rows = some_rows(seed)
    grouped = groups_of(rows)
    found = run(declare, rows, seed, tmp_path)
    assert found["counts"] == {
        g: dict(Counter(held(r["tag"] for r in own))) for g, own in grouped.items()
    }
    assert found["totals"] == {
        tag: sum(held(r["v"] for r in own)) if held(r["v"] for r in own) else None
        for tag, own in by_tag(rows).items()
    }
    assert found["latest"] == {g: {r["tag"]: r["v"] for r in own} for g, own in grouped.items()}
    merged = {
        g: {k: v for r in own for k, v in (r["m"] or {}).items()} for g, own in grouped.items()
    }
    assert found["merged"] == {g: entries for g, entries in merged.items() if entries}


@pytest.mark.parametrize("seed", range(6))
def test_structs_below_maps(seed, tmp_path):
    """A struct kept whole, one kept field by field, each with more inside."""
    inner = Struct(n=int, total=int | None, tags=Set(str), days=Map(int, Struct(low=int, n=int)))

    def declare(mb, rows):
        whole = mb.pstate("whole", Map(str, Map(int, Struct(n=int, total=int | None))))
        rows.aggregate(whole["g"], agg.map("h", agg.struct(n=agg.count(), total=agg.sum("v"))))
        apart = mb.pstate("apart", Map(str, Map(int, inner)))
        rows.aggregate(
            apart["g"]["h"],
            n=agg.count(),
            total=agg.sum("v"),
            tags=agg.collect_set("tag"),
            days=agg.map("h", agg.struct(low=agg.min("v"), n=agg.count())),
        )

    rows = some_rows(seed)
    found = run(declare, rows, seed, tmp_path)
    cells = defaultdict(list)
    for row in rows:
        cells[row["g"], row["h"]].append(row)
    for (g, h), own in cells.items():
        values = held(r["v"] for r in own)
        total = sum(values) if values else None
        assert found["whole"][g][h] == {"n": len(own), "total": total}
        assert found["apart"][g][h] == {
            "n": len(own),
            "total": total,
            "tags": set(held(r["tag"] for r in own)),
            "days": {h: {"low": min(values, default=None), "n": len(own)}},
        }


@pytest.mark.parametrize("seed", range(6))
def test_sets_that_lose_elements(seed, tmp_path):
    """The last row of an element decides, whatever the cuts; a null condition does not hold."""

    def declare(mb, rows):
        tags = mb.pstate("tags", Map(str, Set(str)))
        rows.aggregate(tags["g"], agg.collect_set("tag", remove="gone"))
        everywhere = mb.pstate("everywhere", Map(str, Set(str | None)))
        rows.aggregate(everywhere["g"], agg.collect_set("tag", remove="gone"))

    rows = some_rows(seed)
    expected, with_null = defaultdict(set), defaultdict(set)
    for row in rows:
        for sets in (expected, with_null):
            if sets is expected and row["tag"] is None:
                continue
            (sets[row["g"]].discard if row["gone"] else sets[row["g"]].add)(row["tag"])
    found = run(declare, rows, seed, tmp_path)
    assert found["tags"] == {g: tags for g, tags in expected.items() if tags}
    assert found["everywhere"] == {g: tags for g, tags in with_null.items() if tags}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("track_size", [False, True])
def test_a_collection_is_deleted_with_all_that_it_holds(seed, track_size, tmp_path):
    """Maps in maps, sets, and structs that are stored by field; their changes are told."""

    def keep_gone(row):
        return [row.asdict()] if row.gone else []

    def declare(mb, rows):
        totals = mb.pstate("totals", Map(str, Map(int, int)), track_size=track_size)
        tags = mb.pstate("tags", Map(str, Map(int, Set(str))), track_size=track_size)
        both = mb.pstate("both", Map(str, Struct(n=int, seen=Set(int))), track_size=track_size)
        counted = rows.aggregate(totals["g"]["h"], agg.count())
        rows.aggregate(tags["g"]["h"], agg.collect_set("tag"))
        rows.aggregate(both["g"], agg.struct(n=agg.count(), seen=agg.collect_set("h")))
        gone = rows.flat_map(keep_gone, emits=DDL)
        gone.aggregate(totals["g"], agg.voided())
        gone.aggregate(tags["g"]["h"], agg.voided())
        gone.aggregate(both["g"], agg.voided())
        net = mb.pstate("net", Map(str, int))
        changes = counted.changes().flat_map(
            lambda row: [{"g": row.g, "n": (row.new or 0) - (row.old or 0)}],
            emits="g string, n long",
        )
        changes.aggregate(net["g"], agg.sum("n"))

    rows = some_rows(seed)
    gone = {row["g"] for row in rows if row["gone"]}
    for row in rows:
        row["gone"] = row["g"] == min(gone)  # of one key all rows or none
    found = run(declare, rows, seed, tmp_path)
    kept = [row for row in rows if not row["gone"]]
    assert kept
    assert len(kept) < len(rows)
    totals, tags = defaultdict(Counter), defaultdict(lambda: defaultdict(set))
    for row in kept:
        totals[row["g"]][row["h"]] += 1
        if row["tag"] is not None:
            tags[row["g"]][row["h"]].add(row["tag"])
    assert found["totals"] == totals
    assert found["tags"] == tags
    assert {g: each["n"] for g, each in found["both"].items()} == {
        g: sum(each.values()) for g, each in totals.items()
    }
    assert {g: each["seen"] for g, each in found["both"].items()} == {
        g: set(each) for g, each in totals.items()
    }
    assert {g: n for g, n in found["net"].items() if n} == {
        g: sum(each.values()) for g, each in totals.items()
    }


@pytest.mark.parametrize("seed", range(3))
def test_deleting_steps_run_after_those_declared_before(seed, tmp_path):
    """What the rows of a microbatch filled is voided by them; undone when they are taken back."""

    def keep_gone(row):
        return [row.asdict()] if row.gone else []

    def declare(mb, rows):
        totals = mb.pstate("totals", Map(str, Map(int, float | None)))
        rows.aggregate(totals["g"]["h"], agg.avg("v"))
        tags = mb.pstate("tags", Map(str, Set(str)))
        rows.aggregate(tags["g"], agg.collect_set("tag"))
        gone = rows.flat_map(keep_gone, emits=DDL)
        gone.aggregate(totals["g"]["h"], agg.voided())
        gone.aggregate(tags["g"], agg.remove_from_set("tag"))

    rows = some_rows(seed)
    for row in rows:
        row["gone"] = row["h"] == 2 or row["tag"] == "x"  # of one key all rows or none
    for row in rows:
        row["h"] = 9 if row["gone"] else row["h"]
        row["tag"] = "x" if row["gone"] else row["tag"]
    found = run(declare, rows, seed, tmp_path)
    kept = [row for row in rows if not row["gone"]]
    cells = defaultdict(list)
    for row in kept:
        cells[row["g"], row["h"]].append(row["v"])
    means = {key: held(values) for key, values in cells.items()}
    expected = defaultdict(dict)
    for (g, h), values in means.items():
        expected[g][h] = sum(values) / len(values) if values else None
    assert found["totals"] == expected
    tags = {g: set(held(r["tag"] for r in own)) for g, own in groups_of(kept).items()}
    assert found["tags"] == tags


@pytest.mark.parametrize("seed", range(6))
def test_every_new_value_in_one_struct(seed, tmp_path):
    """Conditions, limits, accumulators and estimates side by side, and without any key."""
    leaf = Struct(
        every=bool | None, some=bool | None, best=str | None, head=List(tuple[str | None]),
        low=List(tuple[int | None]), hash=int, users=int, middle=float | None, tails=List(float),
    )  # fmt: skip

    def fields():
        return {
            "every": agg.bool_and("gone"),
            "some": agg.bool_or("gone"),
            "best": agg.max_by("tag", "v"),
            "head": agg.limit(3, ["tag"]),
            "low": agg.limit(2, ["v"], order_by="v", descending=True),
            "hash": agg.accumulate(
                lambda c, v, t: (c * 31 + (v or 7) + len(t or "")) % 997, "v", "tag", initial=1
            ),
            "users": agg.approx_count_distinct("v"),
            "middle": agg.approx_percentile("v", 0.5),
            "tails": agg.approx_percentile("v", [0, 1]),
        }

    def declare(mb, rows):
        rows.aggregate(mb.pstate("kept", Map(str, leaf))["g"], **fields())
        rows.aggregate(mb.pstate("users", int), agg.approx_count_distinct("tag"))

    rows = some_rows(seed)
    found = run(declare, rows, seed, tmp_path)
    for g, own in groups_of(rows).items():
        gone, values = held(r["gone"] for r in own), held(r["v"] for r in own)
        mixed = 1
        for r in own:
            mixed = (mixed * 31 + (r["v"] or 7) + len(r["tag"] or "")) % 997
        middle = found["kept"][g].pop("middle")
        exact = sorted(values)[(len(values) + 1) // 2 - 1]
        assert abs(middle - exact) <= 0.01 * abs(exact) + 1e-9
        low, high = found["kept"][g].pop("tails")
        assert abs(low - min(values)) <= 0.01 * abs(min(values)) + 1e-9
        assert abs(high - max(values)) <= 0.01 * abs(max(values)) + 1e-9
        assert found["kept"][g] == {
            "every": all(gone),
            "some": any(gone),
            "best": [r["tag"] for r in own if r["v"] == max(values)][-1],
            "head": [(r["tag"],) for r in own][:3],
            "low": [(v,) for v in sorted(values, reverse=True)[:2]],
            "hash": mixed,
            "users": len(set(values)),
        }
    assert found["users"] == len(set(held(r["tag"] for r in rows)))


def test_rows_without_any_element_add_nothing(tmp_path):
    """A microbatch of nulls alone."""

    def declare(mb, rows):
        rows.aggregate(mb.pstate("tags", Map(str, Set(str)))["g"], agg.collect_set("tag"))
        rows.aggregate(mb.pstate("counts", Map(str, int)), agg.count_values("tag"))

    rows = [{**row, "tag": None} for row in some_rows(1, 5)]
    assert run(declare, rows, 1, tmp_path) == {"tags": {}, "counts": {}}


def test_on_spark(tmp_path):
    """Keys that are expressions, a map that a function makes, estimates from workers' processes."""

    def declare(mb, rows):
        upper = mb.pstate("upper", Map(str, Map(str, Map(int, int))))
        rows.aggregate(upper["upper(g)"], agg.map("concat(tag, '!')", agg.count_values("h + 1")))
        merged = mb.pstate("merged", Map(str, Map(str, int | None)))
        rows.aggregate(merged["upper(g)"], agg.merge_map("map_concat(m, map('all', h))"))
        kept = mb.pstate("kept", Map(str, Struct(users=int, middle=float, every=bool, hash=int)))
        rows.aggregate(
            kept["g"],
            users=agg.approx_count_distinct("v * 2"),
            middle=agg.approx_percentile("h", 1),
            every=agg.bool_and("h < 4"),
            hash=agg.accumulate(lambda c, h: (c * 31 + h) % 997, "h", initial=1),
        )
        tags = mb.pstate("tags", Map(str, Set(str)))
        rows.aggregate(tags["g"], agg.collect_set("tag", remove="gone OR h = 0"))

    rows = some_rows(11)
    found = run(declare, rows, 11, tmp_path, "spark")
    counts = Counter((r["g"].upper(), r["tag"], r["h"] + 1) for r in rows if r["tag"] is not None)
    upper = defaultdict(lambda: defaultdict(dict))
    for (g, tag, h), count in counts.items():
        upper[g][f"{tag}!"][h] = count
    assert found["upper"] == upper
    merged, tags = defaultdict(dict), defaultdict(set)
    for row in rows:
        if row["m"] is not None:
            merged[row["g"].upper()].update(row["m"] | {"all": row["h"]})
        if row["tag"] is not None:
            removed = row["gone"] or row["h"] == 0
            (tags[row["g"]].discard if removed else tags[row["g"]].add)(row["tag"])
    assert found["merged"] == merged
    assert found["tags"] == {g: own for g, own in tags.items() if own}
    for g, own in groups_of(rows).items():
        mixed = 1
        for row in own:
            mixed = (mixed * 31 + row["h"]) % 997
        greatest = max(row["h"] for row in own)
        assert abs(found["kept"][g].pop("middle") - greatest) <= 0.01 * greatest
        users = len(set(held(row["v"] for row in own)))
        assert found["kept"][g] == {"users": users, "every": True, "hash": mixed}


def test_changes_of_what_compound_aggregates_wrote(tmp_path):
    """Keys are named as they were written."""
    module = atoll.Module("m")
    depot = module.depot("rows", DDL, partition_by="g")
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, Map(str, int)))
    seen = mb.pstate("seen", Map(str, List(tuple[str, str, int])))
    changed = mb.source(depot).aggregate(counts["g"], agg.count_values("tag")).changes()
    changed.aggregate(seen["g"], agg.limit(9, ["g", "tag", "new"]))
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        row = {"g": "a", "h": 1, "tag": "x", "v": 1, "gone": None, "m": None}
        for number in (1, 2):
            app.depot("rows").append([row])
            app.topology("mb").wait_processed(number)
        assert app.pstate("seen").get() == {"a": [("a", "x", 1), ("a", "x", 2)]}


class TestMistakes:
    """Shapes are checked on the user's line, types at the deployment."""

    @pytest.fixture
    def mb(self):
        """A topology and PStates of several shapes."""
        module = atoll.Module("m")
        self.module = module
        mb = module.microbatch("mb", vnode_count=4)
        self.rows = mb.source(module.depot("rows", DDL))
        return mb

    @pytest.mark.parametrize(
        ("node", "aggregator", "message"),
        [
            (int, agg.count_values("tag"), "fills a Map"),
            (Map(str, int), agg.struct(n=agg.count()), "holds no struct"),
            (Map(str, int), agg.count(), r'agg.map\("...", agg.count\(\)\)'),
            (Map(str, Map(str, int)), agg.count_values("tag"), "stored element by element"),
            (Struct(a=Struct(n=int)), agg.struct(a=agg.struct(n=agg.count())), "cannot write"),
            (Struct(a=List(int)), agg.struct(a=agg.collect_set("v")), "use collect_list"),
            (Struct(a=int, b=Set(int)), agg.struct(c=agg.count()), "no field 'c'"),
            (int, agg.voided(), "the whole PState"),
            (Map(str, int), agg.voided(), "the whole PState"),
            (Struct(a=int), agg.struct(a=agg.voided()), "cannot write inside"),
        ],
    )
    def test_shapes(self, mb, node, aggregator, message):
        """Each with a hint and a place."""
        target = mb.pstate("p", node)
        with pytest.raises(DeclarationError) as caught:
            self.rows.aggregate(target, aggregator)
        assert caught.value.context["declared"].startswith("test_compound.py")
        assert re.search(message, f"{caught.value.message} {caught.value.hint}")

    @pytest.mark.parametrize(
        ("node", "aggregator", "message"),
        [
            (Map(int, int), agg.count_values("tag"), "the PState's key is int"),
            (Map(str, str), agg.map("tag", agg.sum("v")), "gives a number"),
            (Map(str, int), agg.merge_map("tag"), "not a map"),
            (Map(str, int), agg.merge_map("nothing"), "missing"),
            (Set(str), agg.collect_set("tag", remove="v"), "removes by a condition"),
        ],
    )
    def test_types(self, mb, node, aggregator, message, tmp_path):
        """Found before the first record."""
        self.rows.aggregate(mb.pstate("p", node), aggregator)
        with (
            atoll.LocalCluster(tmp_path, engine="inline") as cluster,
            pytest.raises(DeclarationError, match=message) as caught,
        ):
            cluster.deploy(self.module)
        assert caught.value.hint
        assert "test_compound.py" in caught.value.context["declared"]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: agg.map("g", "v"), "agg.map of 'v'"),
            (lambda: agg.map(3, agg.count()), "text, not 3"),
            (agg.struct, "no fields"),
            (lambda: agg.struct(n="v"), "n='v'"),
            (lambda: agg.merge_map(None), "text, not None"),
        ],
    )
    def test_arguments(self, make, message):
        """Refused where they are made."""
        with pytest.raises(DeclarationError, match=message) as caught:
            make()
        assert caught.value.hint


def test_what_they_say_of_their_results():
    """Schemas that take them."""
    import pyarrow as pa

    kinds = [pa.string(), pa.int64()]
    assert agg.map("g", agg.sum("v")).result_node(kinds) == as_node(Map(str, int | None))
    assert agg.merge_map("m").result_node([pa.map_(*kinds)]) == as_node(Map(str, int | None))
    assert str(agg.count_values("tag")) == "map(tag, count())"
    assert str(agg.collect_set("v", remove="x")) == "collect_set(v, remove=x)"
    assert str(agg.remove_from_set("v")) == "remove_from_set(v)"
