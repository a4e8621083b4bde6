"""Batch blocks that need no Spark, on the inline engine: the same rows however they are cut."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import List, LocalCluster, Map, agg, start
from atoll.errors import DeclarationError, TopologyFailedError

ROWS = "k string, v int"
TEXT = "t string"

shapes = pytest.mark.parametrize(
    ("partitions", "vnodes", "units", "records"), [(1, 1, 1, 1000), (4, 16, 3, 7), (7, 256, 2, 1)]
)


def topology(vnodes, records=1000, **options):
    """A topology over one depot that is read from its beginning."""
    module = atoll.Module("blocks")
    taken = {"depot.microbatch.max.records": records}
    return module, module.microbatch("mb", vnode_count=vnodes, options=taken, **options)


def text(function):
    """A step that makes one text of each row."""
    return lambda row: {"t": function(row)}


def collect(mb, name, stream, function):
    """The texts of a stream's rows in a PState."""
    target = mb.pstate(name, List(str))
    stream.map(text(function), emits=TEXT).aggregate(target, agg.collect_list("t"))


def run(module, tmp_path, rows, *, units=2, seconds=60):
    """All rows through the topology; the PStates by name."""
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=units) as cluster:
        app = cluster.deploy(module)
        app.topology("mb").pause()
        app.depot("rows").append(rows)
        app.topology("mb").resume()
        app.topology("mb").wait_processed(len(rows), timeout_seconds=seconds)
        return {name: app.pstate(name).get() for name in module.pstates()}


def batches_of(rows, records):
    """With one depot partition: the microbatches that the option cuts."""
    return [rows[at : at + records] for at in range(0, len(rows), records)]


@pytest.mark.parametrize("records", [1, 6, 1000])
def test_folds_per_microbatch(tmp_path, records):
    """Counts, sums, means, orders and lists of each key, nulls a key like others, per cut."""
    module, mb = topology(16, records)
    rows = mb.source(module.depot("rows", ROWS, partitions=1), start_from=start.beginning())
    grouped = rows.group_by("k").agg(
        n=agg.count(),
        total=agg.sum("v"),
        mean=agg.avg("v"),
        newest=agg.last("v"),
        oldest=agg.first("v"),
        values=agg.collect_list("v"),
        bits=agg.combine(0, lambda a, b: a | b, "v"),
    )
    collect(mb, "grouped", grouped, lambda r: repr(tuple(r.asdict().values())))
    sizes = grouped.agg(groups=agg.count(), most=agg.max("n"))
    collect(mb, "sizes", sizes, lambda r: f"{r.groups} {r.most}")
    rng = random.Random(records)
    data = [{"k": rng.choice([*"abc", None]), "v": rng.choice([1, 5, 8, None])} for _ in range(30)]
    found = run(module, tmp_path, data, units=3)

    expected, sizes = [], []
    for batch in batches_of(data, records):
        groups = defaultdict(list)
        for row in batch:
            groups[row["k"]].append(row["v"])
        for k, values in groups.items():
            known = [each for each in values if each is not None]
            total = sum(known) if known else None
            mean = total / len(known) if known else None
            bits = 0
            for each in known:
                bits |= each
            expected.append((k, len(values), total, mean, values[-1], values[0], known, bits))
        sizes.append(f"{len(groups)} {max(map(len, groups.values()))}")
    assert sorted(found["grouped"]) == sorted(map(repr, expected))
    assert found["sizes"] == sizes


@shapes
def test_keys_of_every_kind(tmp_path, partitions, vnodes, units, records):
    """Several keys, their columns' types kept, whatever the placement is."""
    import datetime as dt

    module, mb = topology(vnodes, records)
    ddl = "k string, v int, f float, d date, b boolean"
    rows = mb.source(module.depot("rows", ddl, partitions=partitions), start_from=start.beginning())
    seen = rows.group_by("k", "v", "f", "d", "b").agg(n=agg.count())
    target = mb.pstate("seen", Map(str, int))
    seen.map(
        lambda r: {"t": f"{r.k} {r.v} {r.f} {r.d} {r.b}", "n": r.n}, emits="t string, n long"
    ).aggregate(target["t"], agg.sum("n"))
    rng = random.Random(7)
    days = [dt.date(2024, 1, 1), None]
    data = [
        {
            "k": rng.choice("ab"),
            "v": rng.randrange(2),
            "f": rng.choice([0.5, -1.0, None]),
            "d": rng.choice(days),
            "b": rng.choice([True, None]),
        }
        for _ in range(60)
    ]
    found = run(module, tmp_path, data, units=units)
    assert found["seen"] == Counter(" ".join(map(str, row.values())) for row in data)


def test_what_comes_of_no_rows(tmp_path):
    """A global aggregate gives one row in every microbatch; a grouped one none."""
    module, mb = topology(4)
    rows = mb.source(module.depot("rows", ROWS))
    module.depot("others", ROWS)
    others = mb.source(module.depots["others"])
    fields = {
        "n": agg.count(),
        "known": agg.count("v"),
        "total": agg.sum("v"),
        "mean": agg.avg("v"),
        "least": agg.min("v"),
        "last": agg.last("v"),
        "values": agg.collect_list("v"),
        "product": agg.combine(1, lambda a, b: a * b, "v"),
        "firsts": agg.limit(2, columns=["v"]),
        "both": agg.struct(total=agg.sum("v"), firsts=agg.limit(2, columns=["v"])),
    }
    collect(mb, "of_none", others.agg(**fields), lambda r: repr(tuple(r.asdict().values())))
    collect(mb, "filtered", rows.where(lambda r: False).agg(n=agg.count()), lambda r: str(r.n))
    collect(mb, "grouped", others.group_by("k").agg(n=agg.count()), lambda r: str(r.n))
    rows.aggregate(mb.pstate("total", int), agg.sum("v"))
    found = run(module, tmp_path, [{"k": "a", "v": 1}])
    both = {"total": None, "firsts": []}
    assert found["of_none"] == [repr((0, 0, None, None, None, None, [], 1, [], both))]
    assert found["filtered"] == ["0"]
    assert not found["grouped"]


@shapes
def test_materialized_rows_keep_their_order(tmp_path, partitions, vnodes, units, records):
    """Behind a materialize the rows of a depot partition come in append order."""
    module, mb = topology(vnodes, records)
    depot = module.depot("rows", ROWS, partition_by="k", partitions=partitions)
    once = mb.source(depot, start_from=start.beginning()).materialize().materialize()
    lists = mb.pstate("lists", Map(str, List(int)))
    once.aggregate(lists["k"], agg.collect_list("v"))
    data = [{"k": "abcdef"[at % 6], "v": at} for at in range(20_000 if records > 100 else 60)]
    found = run(module, tmp_path, data, units=units)
    expected = defaultdict(list)
    for row in data:
        expected[row["k"]].append(row["v"])
    assert found["lists"] == expected


def test_materialize_computes_once(tmp_path):
    """Three steps read what one pass made; without it each step makes it again."""
    for materialized in (True, False):
        calls = tmp_path / f"calls-{materialized}"

        def noted(row, calls=calls):
            with calls.open("a") as file:
                file.write(f"{row.v}\n")
            return {"k": row.k, "v": row.v}

        module, mb = topology(4)
        rows = mb.source(module.depot("rows", ROWS)).map(noted, emits="k string, v long")
        rows = rows.materialize() if materialized else rows
        rows.aggregate(mb.pstate("one", int), agg.sum("v"))
        rows.map(lambda r: r, emits="k string, v long").aggregate(
            mb.pstate("two", int), agg.sum("v")
        )
        rows.group_by("k").agg(v=agg.sum("v")).aggregate(mb.pstate("three", int), agg.sum("v"))
        data = [{"k": "a", "v": at} for at in range(5)]
        found = run(module, tmp_path / str(materialized), data)
        assert found == {"one": 10, "two": 10, "three": 10}
        times = Counter(calls.read_text().split())
        assert set(times.values()) == ({1} if materialized else {2})


def test_a_failed_attempt_leaves_nothing_of_its_staged_rows(tmp_path):
    """An attempt that fails behind a materialize and a fold is repeated whole, once each."""
    failed = tmp_path / "failed"

    def once(row):
        if not failed.exists():
            failed.touch()
            raise OSError(28, "no room, this time")
        return row

    module, mb = topology(4)
    rows = mb.source(module.depot("rows", ROWS)).materialize()
    sums = rows.group_by("k").agg(v=agg.sum("v"))
    sums.map(once, emits="k string, v long").aggregate(
        mb.pstate("sums", Map(str, int))["k"], agg.sum("v")
    )
    rows.aggregate(mb.pstate("count", int), agg.count())
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("rows").append([{"k": "a", "v": 1}, {"k": "a", "v": 2}, {"k": "b", "v": 3}])
        try:
            app.topology("mb").wait_processed(3)
        except TopologyFailedError:
            app.topology("mb").resume()
            app.topology("mb").wait_processed(3)
        assert failed.exists()
        assert app.pstate("sums").get() == {"a": 3, "b": 3}
        assert app.pstate("count").get() == 3


@shapes
def test_branches(tmp_path, partitions, vnodes, units, records):
    """Each row goes one way: the first whose function is true of it, or the last."""
    module, mb = topology(vnodes, records)
    depot = module.depot("rows", ROWS, partitions=partitions)
    rows = mb.source(depot, start_from=start.beginning())
    ways = rows.branch(lambda r: r.v < 3, lambda r: r.v % 2 == 0)
    for name, way in zip(("small", "even", "rest"), ways, strict=True):
        collect(mb, name, way, lambda r: str(r.v))
    collect(mb, "kept", rows.where(lambda r: r.v > 5), lambda r: str(r.v))
    found = run(module, tmp_path, [{"k": "a", "v": v} for v in range(10)], units=units)
    assert {name: sorted(map(int, each)) for name, each in found.items()} == {
        "small": [0, 1, 2],
        "even": [4, 6, 8],
        "rest": [3, 5, 7, 9],
        "kept": [6, 7, 8, 9],
    }


def test_a_row_that_a_condition_rejects_is_reported_once(tmp_path):
    """Both ways of a branch share the call; neither gets the row."""
    module = atoll.Module("blocks")
    bad = module.dead_letter_depot("bad")
    mb = module.microbatch("mb", vnode_count=4, dead_letter=bad)
    rows = mb.source(module.depot("rows", ROWS))
    yes, no = rows.branch(lambda r: 6 // r.v > 2)
    collect(mb, "yes", yes, lambda r: str(r.v))
    collect(mb, "no", no, lambda r: str(r.v))
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("rows").append([{"k": "a", "v": v} for v in (0, 1, 2, 3)])
        app.topology("mb").wait_processed(4)
        assert sorted(app.pstate("yes").get()) == ["1", "2"]
        assert app.pstate("no").get() == ["3"]
        letters = app.depot("bad").read(0, 0, 1).to_pylist()
        assert len(letters) == 1
        assert "ZeroDivisionError" in str(letters[0])


def double(stream):
    """The body of a loop."""
    return stream.map(lambda r: {"k": r.k, "v": r.v * 2}, emits=ROWS)


@shapes
def test_loops(tmp_path, partitions, vnodes, units, records):
    """Each row goes round as often as it needs; a body may hold state steps and folds."""
    module, mb = topology(vnodes, records)
    depot = module.depot("rows", ROWS, partitions=partitions)
    rows = mb.source(depot, start_from=start.beginning())
    visits = mb.pstate("visits", Map(str, int))

    def visit(row, visits):
        visits[row.k] = visits.get(row.k, 0) + 1
        yield row.asdict()

    looped = rows.loop(double, until=lambda r: r.v >= 100, at_most=7)
    collect(mb, "looped", looped, lambda r: str(r.v))

    def body(stream):
        return double(stream).process(visit, key="k", states=[visits], emits=ROWS)

    counted = rows.loop(body, until=lambda r: r.v >= 100, at_most=7)
    collect(mb, "counted", counted, lambda r: str(r.v))
    stopped = rows.loop(double, until=lambda r: r.v >= 100, at_most=2, left="emit")
    collect(mb, "stopped", stopped, lambda r: str(r.v))
    data = [{"k": "ab"[v % 2], "v": v} for v in (1, 2, 7, 64, 100, 250)]
    found = run(module, tmp_path, data, units=units)

    results, rounds, stopped = [], Counter(), []
    for row in data:
        v, took = row["v"], 0
        while v < 100:
            v, took = v * 2, took + 1
            rounds[row["k"]] += 1
        results.append(v)
        stopped.append(row["v"] * 2 ** min(took, 2))
    assert sorted(map(int, found["looped"])) == sorted(results)
    assert sorted(map(int, found["counted"])) == sorted(results)
    assert sorted(map(int, found["stopped"])) == sorted(stopped)
    assert found["visits"] == rounds


def test_a_row_left_in_a_loop_fails_the_microbatch(tmp_path):
    """With the row and the loop's line; nothing of the microbatch is committed."""
    module, mb = topology(4)
    rows = mb.source(module.depot("rows", ROWS))
    rows.loop(double, until=lambda r: r.v >= 100, at_most=3).aggregate(
        mb.pstate("total", int), agg.sum("v")
    )
    with pytest.raises(TopologyFailedError, match="left after 3 rounds") as caught:
        run(module, tmp_path, [{"k": "a", "v": 200}, {"k": "b", "v": 1}])
    assert "test_batch_inline.py" in str(caught.value)


@shapes
def test_rows_to_vnodes(tmp_path, partitions, vnodes, units, records):
    """To all: every entry is reached once per row. To one: only the entries of that vnode."""
    module, mb = topology(vnodes, records)
    depot = module.depot("rows", ROWS, partition_by="k", partitions=partitions)
    signals = module.depot("signals", "v int", partitions=1)
    stock = mb.pstate("stock", Map(str, int))
    named, owned = mb.pstate("named", Map(str, int)), mb.pstate("owned", Map(str, int))
    rows = mb.source(depot, start_from=start.beginning())

    def put(row, stock, named, owned):
        stock[row.k] = named[row.k] = owned[row.k] = row.v

    def raised(row, state):
        for key in list(state):
            state[key] += row.v

    rows.process(put, key="k", states=[stock, named, owned])
    signal = mb.source(signals, start_from=start.beginning())
    signal.to_all().process(raised, states=[stock])
    signal.to_vnode("v").process(raised, states=[named])
    signal.partition_by(lambda row: row.v * 3).process(raised, states=[owned])
    keys = [f"k{at}" for at in range(40)]
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=units) as cluster:
        app = cluster.deploy(module)
        app.depot("rows").append([{"k": k, "v": 0} for k in keys])
        app.topology("mb").wait_processed(40)
        app.depot("signals").append([{"v": 5}, {"v": vnodes + 2}])
        app.topology("mb").wait_processed(42)
        found = {name: app.pstate(name).get() for name in ("stock", "named", "owned")}
    from atoll.codec.keys.elements import encode_key
    from atoll.placement.vnodes import vnode_of
    from atoll.schema import Scalar

    def vnode(key):
        return vnode_of(encode_key((key,), (Scalar("str"),)), vnodes)

    values = (5, vnodes + 2)
    assert found["stock"] == dict.fromkeys(keys, sum(values))
    for name, factor in (("named", 1), ("owned", 3)):
        expected = {k: sum(v for v in values if v * factor % vnodes == vnode(k)) for k in keys}
        assert found[name] == expected


def test_a_number_that_is_none_is_refused(tmp_path):
    """What partition_by's function returns is checked, with the row."""
    module, mb = topology(4)
    state = mb.pstate("state", Map(str, int))
    rows = mb.source(module.depot("rows", ROWS))
    rows.partition_by(lambda row: row.k).process(lambda row, state: None, states=[state])
    with pytest.raises(TopologyFailedError, match="needs an int of 64 bits"):
        run(module, tmp_path, [{"k": "a", "v": 1}])


def test_types_are_checked_when_deployed(tmp_path):
    """Keys that cannot be, columns that are not there, two columns of one name."""
    for name, make, message in [
        ("list", lambda s: s.group_by("tags").agg(n=agg.count()), "cannot group by"),
        ("none", lambda s: s.group_by("nope").agg(n=agg.count()), "uses the column 'nope'"),
        ("input", lambda s: s.agg(n=agg.sum("nope")), "uses the column 'nope'"),
        ("text", lambda s: s.agg(n=agg.sum("k")), "needs numbers"),
        ("twice", lambda s: s.group_by("k").agg(k=agg.count()), "two columns of one name"),
        ("sql", lambda s: s.agg("count(DISTINCT k) AS n"), "only Spark can run"),
    ]:
        module = atoll.Module(name)
        mb = module.microbatch("mb")
        rows = mb.source(module.depot("rows", "k string, tags array<string>"))
        make(rows).aggregate(mb.pstate("n", int), agg.count())
        with (
            LocalCluster(tmp_path / name, engine="inline") as cluster,
            pytest.raises(DeclarationError, match=message) as caught,
        ):
            cluster.deploy(module)
        assert "test_batch_inline.py" in str(caught.value.context["declared"])
