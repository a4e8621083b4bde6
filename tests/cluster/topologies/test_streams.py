"""Every step of a stream on real Spark, with and without an exchange, against plain Python.

Deployments are few and cover much, because each costs seconds: what a test asserts is many small
PStates of one module.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from decimal import Decimal

import pyarrow as pa
import pytest

import atoll
from atoll import List, Map, Set, Struct, agg, path

DIRECT, EXCHANGED = 20_000, 0
ways = pytest.mark.parametrize("small", [DIRECT, EXCHANGED], ids=["direct", "exchanged"])


def _options(small):
    return {"topology.microbatch.small.max.records": small}


class Sheet:
    """Collects streams into lists of text, one PState each, to be compared as a whole."""

    def __init__(self, mb):
        self.mb = mb
        self.names = []

    def note(self, name, stream, text):
        """Collect an expression over the rows of a stream."""
        self.names.append(name)
        stream.aggregate(self.mb.pstate(name, List(str)), agg.collect_list(text))

    def read(self, app):
        """All lists, sorted: order between tasks is not promised."""
        return {name: sorted(app.pstate(name).get() or []) for name in self.names}


def _double(row):
    return {"k": row.k, "v": row.v * 2}


def _repeat(row):
    for number in range(row.v):
        yield {"k": row.k, "v": number}


def _keys_of_call(batches):
    """One row per call: the keys that this call saw, and how many rows of each."""
    counts = Counter(k for batch in batches for k in batch.column("k").to_pylist())
    yield pa.RecordBatch.from_pylist(
        [{"k": ",".join(sorted(counts)), "v": sum(counts.values())}],
        schema=pa.schema([("k", pa.string()), ("v", pa.int64())]),
    )


def _plus_one(batches):
    for batch in batches:
        table = pa.Table.from_batches([batch])
        values = pa.array([v + 1 for v in table["v"].to_pylist()], pa.int64())
        yield from pa.table({"v": values, "k": table["k"]}).to_batches()


KV = "k string, v long"


def test_columns_and_python_steps(cluster):  # noqa: PLR0915  # deploys are dear
    """Column steps, Python steps, unions and exchanges, each from the same two depots."""
    module = atoll.Module("steps")
    one = module.depot("one", "k string, v long, tags array<string>, props map<string,int>")
    two = module.depot("two", "v long, k string", partition_by="k", partitions=3)
    mb = module.microbatch("mb", vnode_count=4)
    sheet = Sheet(mb)
    first, second = mb.source(one), mb.source(two)
    kv = first.select("k", "v")
    pair = "concat(k, v)"

    sheet.note("selected", first.select("upper(k) AS big", "v + 1"), "concat(big, `(v + 1)`)")
    sheet.note("added", first.with_columns(v="v * 10", w="v"), "concat_ws(',', k, v, w)")
    sheet.note("filtered", first.where("v > 1 AND k <> 'd'"), pair)
    sheet.note("nulls", first.where("CASE WHEN v > 1 THEN true END"), pair)
    sheet.note("array", first.explode("tags"), "concat(k, tags)")
    sheet.note("named", first.explode("slice(tags, 1, 1)", "tag"), "concat(k, tag, size(tags))")
    sheet.note("outer", first.explode("tags", outer=True), "concat(k, coalesce(tags, '-'))")
    sheet.note("entries", first.explode("props", "p", "n"), "concat(k, p, n)")
    entries = first.explode("props", "p", "n", outer=True)
    sheet.note("outer_entries", entries, "concat(k, coalesce(p, '-'))")
    sheet.note("united", kv.union(second), pair)
    sheet.note("united_where", kv.union(second, second).where("v < 3"), pair)
    sheet.note("twice", second.union(second), pair)
    sheet.note("transformed", first.transform(lambda frame: frame.dropDuplicates(["k"])), "k")
    sheet.note("mapped", kv.map(_double, emits=KV), pair)
    sheet.note("mapped_where", kv.map(_double, emits=KV).where("v > 3"), pair)
    sheet.note("repeated", second.flat_map(_repeat, emits=KV), pair)
    sheet.note("batches", second.map_batches(_plus_one, emits=KV), pair)
    fused = second.map(_double, emits=KV).map_batches(_plus_one, emits=KV).map(_double, emits=KV)
    sheet.note("fused", fused, pair)
    python = second.map(_double, emits="v int, k string").union(kv.map(_double, emits=KV), second)
    python.aggregate(mb.pstate("sums", Map(str, int))["k"], agg.sum("v"))

    many = second.explode("sequence(1, 50)", "n")
    hashed = many.hash_by("k").map_batches(_keys_of_call, emits=KV)
    sheet.note("hashed", hashed, "k")
    sheet.note("global", many.to_global().map_batches(_keys_of_call, emits=KV), pair)
    sheet.note("shuffled", many.shuffle(), "k")
    app = cluster.deploy(module)

    rows = [
        {"k": "a", "v": 1, "tags": ["x", "y"], "props": {"p": 1, "q": 2}},
        {"k": "b", "v": 2, "tags": [], "props": {}},
        {"k": "c", "v": 3, "tags": None, "props": None},
        {"k": "d", "v": 4, "tags": ["z"], "props": {"r": 3}},
        {"k": "d", "v": 4, "tags": ["z"], "props": {"r": 3}},
    ]
    others = [{"k": "a", "v": 2}, {"k": "e", "v": 3}, {"k": "e", "v": 0}]
    app.topology("mb").pause()
    app.depot("one").append(rows)
    app.depot("two").append(others)
    app.topology("mb").resume()
    app.topology("mb").wait_processed(8)
    found = sheet.read(app)

    ones = [(r["k"], r["v"]) for r in rows]
    twos = [(r["k"], r["v"]) for r in others]

    def texts(pairs):
        return sorted(f"{k}{v}" for k, v in pairs)

    assert found["selected"] == texts((k.upper(), v + 1) for k, v in ones)
    assert found["added"] == sorted(f"{k},{v * 10},{v}" for k, v in ones)
    assert found["filtered"] == texts([("b", 2), ("c", 3)])
    assert found["nulls"] == texts((k, v) for k, v in ones if v > 1)
    assert found["array"] == ["ax", "ay", "dz", "dz"]
    assert found["named"] == ["ax2", "dz1", "dz1"]
    assert found["outer"] == ["ax", "ay", "b-", "c-", "dz", "dz"]
    assert found["entries"] == ["ap1", "aq2", "dr3", "dr3"]
    assert found["outer_entries"] == ["ap", "aq", "b-", "c-", "dr", "dr"]
    assert found["united"] == texts(ones + twos)
    assert found["united_where"] == texts(
        [(k, v) for k, v in ones if v < 3] + 2 * [(k, v) for k, v in twos if v < 3]
    )
    assert found["twice"] == texts(2 * twos)
    assert found["transformed"] == ["a", "b", "c", "d"]
    assert found["mapped"] == texts((k, 2 * v) for k, v in ones)
    assert found["mapped_where"] == texts((k, 2 * v) for k, v in ones if v > 1)
    assert found["repeated"] == texts((k, n) for k, v in twos for n in range(v))
    assert found["batches"] == texts((k, v + 1) for k, v in twos)
    assert found["fused"] == texts((k, 2 * (2 * v + 1)) for k, v in twos)
    expected = Counter()
    for k, v in [*ones, *twos]:
        expected[k] += 2 * v
    for k, v in twos:
        expected[k] += v
    assert dict(app.pstate("sums").select(path.all())) == dict(expected)
    calls = [set(call.split(",")) for call in found["hashed"] if call]
    assert sorted(k for call in calls for k in call) == ["a", "e"], "a key is in one call"
    assert found["global"] == ["a,e150"], "one call sees every row"
    assert found["shuffled"] == sorted(["a"] * 50 + ["e"] * 100)


def _longest(current, value):
    return max(current, value, key=lambda text: (len(text), text))


@ways
@pytest.mark.parametrize(("partitions", "vnodes", "parallelism"), [(1, 1, 1), (3, 256, 3)])
def test_every_aggregate(tmp_path, small, partitions, vnodes, parallelism):  # noqa: PLR0915  # deploys are dear
    """Into scalars, nested maps, structs and sets, over two microbatches."""
    module = atoll.Module("aggregates")
    schema = "g string, h string, v long, f double, at long"
    events = module.depot("events", schema, partition_by="g", partitions=partitions)
    extra = module.depot("extra", "at long, v long, g string")
    mb = module.microbatch("mb", vnode_count=vnodes, options=_options(small))
    source = mb.source(events)

    def into(name, aggregate, node, **options):
        source.aggregate(mb.pstate(name, node, **options), aggregate)

    into("n", agg.count(), int, initial=100)
    into("n_f", agg.count("f"), int)
    into("total", agg.sum("v"), int, initial=0)
    into("mean", agg.avg("v"), float)
    into("tops", agg.top_n(2, by="v", columns={"g": "g", "v": "v * 2"}), List(Struct(g=str, v=int)))
    grouped = mb.pstate(
        "grouped",
        Map(str, Struct(
            n=int, total=int, mean=float, low=int, high=int, first=int, last=int, early=str,
            late=str, extra=int,
        )),
    )  # fmt: skip
    source.aggregate(
        grouped["g"],
        n=agg.count("f"),
        total=agg.sum("v"),
        mean=agg.avg("f"),
        low=agg.min("v"),
        high=agg.max("v"),
        first=agg.first("v"),
        last=agg.last("v"),
        early=agg.first("h", by="at"),
        late=agg.last("h", by="at"),
    )
    mb.source(extra).aggregate(grouped["g"], extra=agg.sum("v"))
    nested = mb.pstate("nested", Map(str, Map(int, int)))
    source.aggregate(nested["upper(g)"]["at div 10"], agg.sum("v + 1"))
    mb.source(extra).aggregate(nested["g"]["-1"], agg.sum("v"))
    lists = mb.pstate("lists", Map(str, List(int)))
    source.aggregate(lists["g"], agg.collect_list("v"))
    sets = mb.pstate("sets", Map(str, Set(str)))
    source.aggregate(sets["g"], agg.collect_set("h"))
    source.aggregate(mb.pstate("all_h", Set(str)), agg.collect_set("h"))
    longest = mb.pstate("longest", Map(str, str))
    source.aggregate(longest["g"], agg.combine("", _longest, "h"))
    apart = mb.pstate("apart", Map(str, Struct(name=str, tags=Set(str), days=Map(int, int))))
    source.aggregate(apart["g"]["name"], agg.last("h"))
    source.aggregate(apart["g"]["tags"], agg.collect_set("h"))
    source.aggregate(apart["g"]["days"]["at div 10"], agg.count())

    rows = [
        {
            "g": "abc"[n % 3],
            "h": f"h{n * 7 % 11}" + "x" * (n % 4),
            "v": n * 37 % 101 - 20,
            "f": None if n % 5 == 0 else n / 4,
            "at": n * 53 % 97,
        }
        for n in range(60)
    ]
    more = [{"g": g, "v": v, "at": 0} for g, v in [("a", 5), ("z", 7), ("a", 1)]]
    with atoll.LocalCluster(tmp_path / "root", parallelism=parallelism) as cluster:
        app = cluster.deploy(module)
        app.depot("events").append(rows[:35])
        app.topology("mb").wait_processed(35)
        app.depot("events").append(rows[35:])
        app.depot("extra").append(more)
        app.topology("mb").wait_processed(63)
        assert app.topology("mb").status()["error"] is None
        read = {name: app.pstate(name) for name in app.pstates()}

        values = [row["v"] for row in rows]
        assert read["n"].get() == 160
        assert read["n_f"].get() == 48
        assert read["total"].get() == sum(values)
        assert read["mean"].get() == pytest.approx(sum(values) / 60)
        shown = [(each["g"], each["v"]) for each in read["tops"].get()]
        assert shown == [(r["g"], 2 * r["v"]) for r in sorted(rows, key=lambda r: -r["v"])[:2]]
        by_group = defaultdict(list)
        for row in rows:
            by_group[row["g"]].append(row)
        for group, members in by_group.items():
            floats = [row["f"] for row in members if row["f"] is not None]
            group_values = [row["v"] for row in members]
            by_time = sorted(members, key=lambda row: row["at"])
            assert read["grouped"].get(group) == {
                "n": len(floats),
                "total": sum(group_values),
                "mean": pytest.approx(sum(floats) / len(floats)),
                "low": min(group_values),
                "high": max(group_values),
                "first": group_values[0],
                "last": group_values[-1],
                "early": by_time[0]["h"],
                "late": by_time[-1]["h"],
                "extra": 6 if group == "a" else None,
            }
            assert read["lists"].get(group) == group_values
            names = {row["h"] for row in members}
            assert list(read["sets"].select_one(path.key(group))) == sorted(names)
            assert read["longest"].get(group) == max(names, key=lambda text: (len(text), text))
            days = Counter(row["at"] // 10 for row in members)
            assert read["apart"].select_one(path.key(group)) == {
                "name": members[-1]["h"],
                "tags": set(names),
                "days": dict(sorted(days.items())),
            }
            sums = defaultdict(int)
            for row in members:
                sums[row["at"] // 10] += row["v"] + 1
            assert read["nested"].select_one(path.key(group.upper())) == dict(sorted(sums.items()))
        only_extra = read["grouped"].get("z")
        assert (only_extra["extra"], only_extra["total"], only_extra["mean"]) == (7, None, None)
        assert read["nested"].select(path.key("a", -1)) == [6]
        assert read["all_h"].select_one(path.size()) == len({row["h"] for row in rows})


def _spend(row, funds, seen, note, log):
    """Reads and writes a map, a set in a map, a struct and a list, of one user."""
    funds[row.user] = funds.get(row.user, 10) - row.amount
    seen[row.user].add(row.item)
    if row.item == "oops":
        seen[row.user].discard("oops")
    old = note.get(row.user) or {"times": 0, "last": ""}
    note[row.user] = {"times": old["times"] + 1, "last": row.item}
    log[row.user] = [*log.get(row.user, []), row.amount]
    if funds[row.user] < 0:
        yield {"user": row.user, "missing": -funds[row.user]}


def _count_global(row, counter, users):
    counter.set((counter.get() or 0) + 1)
    users.add(row.user)
    if "ann" in users and len(users) > 2:
        users.discard("ann")


def _hop(row, state):
    state[row.at] = state.get(row.at, 0) + 1
    yield {"at": row.at + 1, "start": row.start}


def _last_hop(row, state):
    state[row.at] = state.get(row.at, 0) + row.start


@ways
def test_state_steps(cluster, small):  # noqa: PLR0915  # deploys are dear
    """process, lookup and changes, chained over keys and jobs, in two microbatches."""
    module = atoll.Module("state")
    spent = module.depot(
        "spent", "user string, item string, amount long", partition_by="user", partitions=3
    )
    starts = module.depot("starts", "at long")
    mb = module.microbatch("mb", vnode_count=16, options=_options(small))
    sheet = Sheet(mb)
    funds = mb.pstate("funds", Map(str, int))
    seen = mb.pstate("seen", Map(str, Set(str)))
    note = mb.pstate("note", Map(str, Struct(times=int, last=str)))
    log = mb.pstate("log", Map(str, List(int)))
    counter = mb.pstate("counter", int, initial=1000)
    users = mb.pstate("users", Set(str), is_global=True)
    source = mb.source(spent)
    broke = source.process(
        _spend, key="user", states=[funds, seen, note, log], emits="user string, missing long"
    )
    broke.aggregate(mb.pstate("missing", Map(str, int))["user"], agg.max("missing"))
    source.process(_count_global, states=[counter, users])

    hops = mb.pstate("hops", Map(int, int))
    hop_row = "at long, start long"
    first = (
        mb.source(starts)
        .with_columns(start="at")
        .process(_hop, key="at", states=[hops], emits=hop_row)
    )
    second = first.process(_hop, key="at + 0", states=[hops], emits=hop_row)
    second.process(_last_hop, key="at", states=[hops])

    # The same depth sees the state from before; a later job sees what earlier ones wrote.
    sheet.note("before", source.lookup(funds["user"], "had"), "concat_ws(':', user, had)")
    sheet.note("after", broke.lookup(funds["user"], "has"), "concat_ws(':', user, has)")
    sheet.note("missed", source.lookup(funds["concat(user, '?')"], "x"), "coalesce(x, -1)||user")
    sheet.note("initial", source.lookup(counter, "n").where("item = 'car'"), "cast(n AS string)")
    noted = broke.lookup(note["user"], "note").where("note.times > 1")
    sheet.note("noted", noted, "concat_ws(':', user, note.times, note.last)")

    texts = "concat_ws(',', {}, ifnull(string(old), '-'), ifnull(string(new), '-'))"
    sheet.note("fund_changes", funds.changes("user"), texts.format("user"))
    sheet.note("seen_changes", seen.changes("user", "item"), texts.format("user, item"))
    sheet.note("user_changes", users.changes("user"), texts.format("user"))
    sheet.note("count_changes", counter.changes(), texts.format("'n'"))
    sheet.note("note_changes", note.changes("user"), "concat_ws(',', user, old.times, new.last)")
    app = cluster.deploy(module)
    topology = app.topology("mb")

    def batch(rows, places, processed):
        topology.pause()
        app.depot("spent").append(
            [dict(zip(("user", "item", "amount"), row, strict=True)) for row in rows]
        )
        app.depot("starts").append([{"at": at} for at in places])
        topology.resume()
        topology.wait_processed(processed)
        assert topology.status()["error"] is None
        return sheet.read(app)

    found = batch([("ann", "tea", 4), ("bob", "car", 90), ("ann", "oops", 1)], [1, 1, 5], 6)
    assert dict(app.pstate("funds").select(path.all())) == {"ann": 5, "bob": -80}
    assert list(app.pstate("seen").select_one(path.key("ann"))) == ["tea"]
    assert app.pstate("note").get("ann") == {"times": 2, "last": "oops"}
    assert app.pstate("log").get("ann") == [4, 1]
    assert app.pstate("missing").get("bob") == 80
    assert app.pstate("counter").get() == 1003
    hopped = app.pstate("hops").select_one(path.sorted_range(0, 9))
    assert hopped == {1: 2, 2: 2, 3: 2, 5: 1, 6: 1, 7: 5}
    assert found["before"] == ["ann", "ann", "bob"], "nothing was there before"
    assert found["after"] == ["bob:-80"]
    assert found["missed"] == ["-1ann", "-1ann", "-1bob"]
    assert found["initial"] == ["1000"]
    assert found["noted"] == []
    assert found["fund_changes"] == ["ann,-,5", "bob,-,-80"]
    assert found["seen_changes"] == ["ann,tea,false,true", "bob,car,false,true"]
    assert found["user_changes"] == ["ann,false,true", "bob,false,true"]
    assert found["count_changes"] == ["n,-,1003"], "the initial value was never written"
    assert found["note_changes"] == ["ann,oops", "bob,car"]

    found = batch([("bob", "car", 1), ("cyd", "tea", 10)], [1000], 9)
    assert app.pstate("users").select(path.all()) == ["bob", "cyd"]
    assert app.pstate("counter").get() == 1005
    assert found["before"] == ["ann", "ann", "bob", "bob:-80", "cyd"]
    assert "bob:-81" in found["after"]
    assert found["noted"] == ["bob:2:car"]
    assert found["fund_changes"] == ["ann,-,5", "bob,-,-80", "bob,-80,-81", "cyd,-,0"]
    assert found["user_changes"] == [
        "ann,false,true", "ann,true,false", "bob,false,true", "cyd,false,true"
    ]  # fmt: skip
    assert found["seen_changes"][-1] == "cyd,tea,false,true"
    assert len(found["seen_changes"]) == 3, "what was written again unchanged is no change"
    assert "n,1003,1005" in found["count_changes"]
    assert "bob,1,car" in found["note_changes"]


MOMENT = dt.datetime(2026, 3, 1, 12, 30, 0, 250, tzinfo=dt.UTC)
TYPES = {
    "s": ("string", str, ["b", "", "é\0x"]),
    "i": ("long", int, [-(2**40), 0, 2**62]),
    "f": ("double", float, [-1.5, 0.0, float("inf")]),
    "o": ("boolean", bool, [False, True, True]),
    "b": ("binary", bytes, [b"", b"\0\xff", b"z"]),
    "d": ("date", dt.date, [dt.date(1969, 1, 1), dt.date(2026, 3, 1), dt.date(2030, 1, 1)]),
    "m": ("timestamp", dt.datetime, [MOMENT - dt.timedelta(days=20_000), MOMENT, MOMENT]),
    "n": ("decimal(20,4)", Decimal, [Decimal("-1.5"), Decimal(0), Decimal("12345.6789")]),
}


@ways
def test_key_and_value_types(cluster, small):
    """Every type as a key and as a value, through aggregates and through process."""
    module = atoll.Module("types")
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    rows_depot = module.depot("rows", f"{ddl}, small tinyint, real float, q string", partitions=2)
    mb = module.microbatch("mb", vnode_count=8, options=_options(small))
    source = mb.source(rows_depot)

    def keep(name):
        def function(row, state):
            state[row[name]] = row[name]

        return function

    for name, (_, kind, _) in TYPES.items():
        state = mb.pstate(f"by_{name}", Map(kind, kind))
        source.aggregate(state[name], agg.last(name))
        source.process(keep(name), key=name, states=[mb.pstate(f"kept_{name}", Map(kind, kind))])
        source.aggregate(mb.pstate(f"set_{name}", Set(kind)), agg.collect_set(name))
    pairs = mb.pstate("pairs", Map(tuple[str, int], Struct(n=int, s=str, m=dt.datetime)))
    source.aggregate(
        pairs["struct(s AS a, i AS b)"], n=agg.count(), s=agg.last("s"), m=agg.max("m")
    )
    widened = mb.pstate("widened", Map(int, Map(float, int)))
    source.aggregate(widened["small"]["real"], agg.count())
    optional = mb.pstate("optional", Map(str | None, int))
    source.aggregate(optional["q"], agg.count())
    maybe = mb.pstate("maybe", Map(int, Map(int | None, int)))
    source.aggregate(maybe["small"]["length(q)"], agg.count())
    app = cluster.deploy(module)
    rows = [
        {name: values[index] for name, (_, _, values) in TYPES.items()}
        | {"small": index, "real": index / 2, "q": "q" if index else None}
        for index in range(3)
    ]
    app.depot("rows").append(rows)
    app.topology("mb").wait_processed(3)

    for name, (_, _, values) in TYPES.items():
        for prefix in ("by", "kept"):
            state = app.pstate(f"{prefix}_{name}")
            for value in values:
                assert state.get(value) == value, (prefix, name)
                assert type(state.get(value)) is type(value)
                assert state.select_one(path.key(value)) == value
            assert state.select(path.keys()) == sorted(set(values))
        assert app.pstate(f"set_{name}").select(path.all()) == sorted(set(values))
    for row in rows:
        assert app.pstate("pairs").get((row["s"], row["i"])) == {
            "n": 1, "s": row["s"], "m": row["m"]
        }  # fmt: skip
    assert app.pstate("pairs").select(path.size()) == [3]
    assert app.pstate("widened").get(2, 1.0) == 1
    assert app.pstate("optional").select(path.all()) == [(None, 1), ("q", 2)]
    assert app.pstate("optional").get(None) == 1
    assert app.pstate("maybe").get(0, None) == 1


def _keep_order(row, state):
    state[row.k] = [*state.get(row.k, [])[-49:], row.v]


@pytest.mark.parametrize("small", [DIRECT, EXCHANGED], ids=["direct", "exchanged"])
def test_many_rows_over_several_tasks(tmp_path, small):
    """Enough rows that several tasks read: order within keys, and what the exchanges promise."""
    module = atoll.Module("many")
    depot = module.depot("rows", KV, partition_by="k", partitions=3)
    mb = module.microbatch("mb", vnode_count=16, options=_options(small))
    source = mb.source(depot)
    source.aggregate(mb.pstate("lists", Map(str, List(int)))["k"], agg.collect_list("v"))
    source.aggregate(mb.pstate("last", Map(str, int))["k"], agg.last("v"))
    newest = mb.pstate("newest", Map(str, List(int)))
    source.process(_keep_order, key="k", states=[newest])
    if small == EXCHANGED:
        sheet = Sheet(mb)
        calls = source.hash_by("k").map_batches(_keys_of_call, emits=KV)
        sheet.note("hashed", calls.where("v > 0"), "k")
        spread = source.shuffle().map_batches(_keys_of_call, emits=KV)
        sheet.note("shuffled", spread, "cast(v AS string)")
        sheet.note("global", source.to_global().map_batches(_keys_of_call, emits=KV), "string(v)")
    rows = [{"k": f"k{n * 31 % 17}", "v": n} for n in range(12_000)]
    with atoll.LocalCluster(tmp_path / "root", parallelism=2) as cluster:
        app = cluster.deploy(module)
        app.depot("rows").append(rows)
        app.topology("mb").wait_processed(len(rows))
        by_key = defaultdict(list)
        for row in rows:
            by_key[row["k"]].append(row["v"])
        assert dict(app.pstate("lists").select(path.all())) == by_key
        assert dict(app.pstate("last").select(path.all())) == {k: v[-1] for k, v in by_key.items()}
        kept = {k: v[-50:] for k, v in by_key.items()}
        assert dict(app.pstate("newest").select(path.all())) == kept
        if small == EXCHANGED:
            found = sheet.read(app)
            calls = [call.split(",") for call in found["hashed"]]
            assert len(calls) == 2
            assert sorted(key for call in calls for key in call) == sorted(by_key)
            assert [int(count) for count in found["shuffled"]] == [6_000, 6_000]
            assert found["global"] == ["12000"]
