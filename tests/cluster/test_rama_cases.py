"""Rama's published acceptance cases A1 to A5 and A10's first half, on real Spark.

Every case runs with several depot partition and vnode counts: what they are must never show.
"""

from __future__ import annotations

import pytest
from declared import (
    bank_module,
    key_pairs_module,
    time_series_module,
    top_users_module,
)

import atoll
from atoll import List, Map, Struct, agg, path

SHAPES = [(1, 1), (2, 16), (3, 256), (8, 16), (8, 256), (2, 1)]
shapes = pytest.mark.parametrize(("partitions", "vnodes"), SHAPES)


@shapes
def test_a1_key_pairs_and_global_sum(cluster, partitions, vnodes):
    """Nested counts and one global sum, from two depots in one topology."""
    app = cluster.deploy(key_pairs_module("a1", partitions, vnodes))
    app.depot("numbers").append([{"v": 1}, {"v": 3}, {"v": 7}])
    pairs = ["ab", "ab", "ac", "xy", "xy", "xy", "xz"]
    app.depot("pairs").append([{"k": a, "k2": b} for a, b in pairs])
    app.topology("mb").wait_processed(10)

    assert app.pstate("global_sum").get() == 11
    assert app.pstate("pair_counts").select(path.key("a").all()) == [("b", 2), ("c", 1)]
    assert app.pstate("pair_counts").select(path.key("x").all()) == [("y", 3), ("z", 1)]


@shapes
def test_a2_top_users(cluster, partitions, vnodes):
    """A top-three list fed by the changes of the totals, in exact order."""
    app = cluster.deploy(top_users_module("a2", partitions, vnodes))
    purchases = [(0, 300), (1, 200), (2, 100), (3, 100), (4, 400)]
    depot = app.depot("purchases")
    depot.append([{"user_id": user, "cents": cents} for user, cents in purchases])
    app.topology("topusers").wait_processed(5)
    top = [(each["user_id"], each["total"]) for each in app.pstate("top_spenders").get()]
    assert top == [(4, 400), (0, 300), (1, 200)]

    depot.append([{"user_id": 3, "cents": 250}])
    app.topology("topusers").wait_processed(6)
    top = [(each["user_id"], each["total"]) for each in app.pstate("top_spenders").get()]
    assert top == [(4, 400), (3, 350), (0, 300)]
    users = app.pstate("top_spenders").select(path.all().field("user_id"))
    assert users == [4, 3, 0]


A3_FOO = [(10, 3), (20, 3), (15, 10), (18, 10), (33, 10), (20, 65), (30, 65), (100, 1440)]
A3_FOO += [(100, 1448), (50, 3002)]
A3_D = [(10, 3), (20, 3), (15, 10), (20, 65), (30, 65), (100, 1440), (100, 1448), (50, 3002)]


def _stats(cardinality, total, last, least, most):
    return {
        "cardinality": cardinality,
        "total": total,
        "last_millis": last,
        "min": least,
        "max": most,
    }


@shapes
def test_a3_time_series(cluster, partitions, vnodes):
    """Structs of aggregates at four granularities; the last one depends on append order."""
    app = cluster.deploy(time_series_module("a3", partitions, vnodes))
    depot = app.depot("latencies")
    depot.append(
        [
            {"url": "foo.com", "render_millis": ms, "ts_millis": minute * 60_000 + 17}
            for ms, minute in A3_FOO
        ]
    )
    app.topology("timeseries").wait_processed(10)
    windows = app.pstate("window_stats")
    minutes = path.key("foo.com", "m")
    assert windows.select_one(minutes.key(3)) == _stats(2, 30, 20, 10, 20)
    assert windows.select_one(minutes.sorted_range(3, 11)) == {
        3: _stats(2, 30, 20, 10, 20),
        10: _stats(3, 66, 33, 15, 33),
    }
    assert windows.select_one(minutes.sorted_range(0, 4320).size()) == 6
    assert windows.select_one(path.key("foo.com", "d", 0)) == _stats(7, 146, 30, 10, 33)
    whole = windows.select(path.key("foo.com", "td").map_vals())
    assert whole == [_stats(10, 396, 50, 10, 100)]

    depot.append(
        [{"url": "d.com", "render_millis": ms, "ts_millis": minute * 60_000} for ms, minute in A3_D]
    )
    app.topology("timeseries").wait_processed(18)
    for (start, end), (count, total) in {
        (0, 4320): (8, 345),
        (0, 60): (3, 45),
        (60, 120): (2, 50),
        (1440, 1500): (2, 200),
    }.items():
        found = windows.select_one(path.key("d.com", "m").sorted_range(start, end))
        assert sum(each["cardinality"] for each in found.values()) == count
        assert sum(each["total"] for each in found.values()) == total
    assert windows.select_one(path.key("nobody.com", "m").sorted_range(0, 9)) == {}


@shapes
def test_a4_bank_transfer(cluster, partitions, vnodes):
    """One record changes state at two keys; a transfer without cover changes nothing."""
    app = cluster.deploy(bank_module("a4", partitions, vnodes))
    deposits, transfers = app.depot("deposits"), app.depot("transfers")
    deposits.append([{"user": u, "amount": a} for u, a in [(0, 200), (1, 100), (2, 100)]])
    app.topology("banking").wait_processed(3)
    for transfer in [
        ("alice->bob1", 0, 1, 50),
        ("alice->charlie1", 0, 2, 160),
        ("alice->charlie2", 0, 2, 25),
        ("charlie->bob1", 2, 1, 10),
    ]:
        transfers.append([dict(zip(("id", "src", "dst", "amount"), transfer, strict=True))])
    app.topology("banking").wait_processed(7)

    assert [app.pstate("funds").get(user) for user in range(3)] == [125, 160, 115]

    def sent(user):
        rows = app.pstate("outgoing").select(path.key(user).all())
        return {name: (each["to"], each["amount"], each["ok"]) for name, each in rows}

    def received(user):
        rows = app.pstate("incoming").select(path.key(user).all())
        return {name: (each["sender"], each["amount"], each["ok"]) for name, each in rows}

    assert sent(0) == {
        "alice->bob1": (1, 50, True),
        "alice->charlie1": (2, 160, False),
        "alice->charlie2": (2, 25, True),
    }
    assert sent(2) == {"charlie->bob1": (1, 10, True)}
    assert received(1) == {"alice->bob1": (0, 50, True), "charlie->bob1": (2, 10, True)}
    assert received(2) == {
        "alice->charlie1": (0, 160, False),
        "alice->charlie2": (0, 25, True),
    }


@shapes
def test_a4_longer_script(cluster, partitions, vnodes):
    """Deposits twice, an exact balance, refused and unknown senders."""
    app = cluster.deploy(bank_module("a4b", partitions, vnodes))
    a, b, c, unknown = 1, 2, 3, 99
    amounts = [(a, 200), (a, 50), (b, 100), (c, 75)]
    app.depot("deposits").append([{"user": u, "amount": m} for u, m in amounts])
    app.topology("banking").wait_processed(4)
    script = [
        ("t1", a, b, 50),
        ("t2", c, b, 75),
        ("t3", a, b, 999),
        ("t4", c, b, 10),
        ("t5", unknown, b, 10),
        ("t6", a, c, 30),
    ]
    app.depot("transfers").append(
        [dict(zip(("id", "src", "dst", "amount"), each, strict=True)) for each in script]
    )
    app.topology("banking").wait_processed(10)

    funds = app.pstate("funds")
    assert [funds.get(user) for user in (a, b, c)] == [170, 225, 30]
    assert funds.get(unknown) is None
    outgoing, incoming = app.pstate("outgoing"), app.pstate("incoming")
    assert outgoing.select(path.key(a).keys()) == ["t1", "t3", "t6"]
    assert outgoing.select(path.key(c).keys()) == ["t2", "t4"]
    assert incoming.select(path.key(b).keys()) == ["t1", "t2", "t3", "t4", "t5"]
    assert incoming.select(path.key(c).keys()) == ["t6"]
    assert incoming.select(path.key(unknown).keys()) == []


@shapes
def test_a5_changes_once_per_microbatch(cluster, partitions, vnodes):
    """Each changed entry comes once per microbatch, with its final value."""
    module = atoll.Module("a5")
    rows = module.depot("rows", "k1 string, k2 string, v long", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=vnodes)
    stats = mb.pstate("stats", Map(str, Map(str, Struct(count=int, total=int))))
    seen = mb.pstate("seen", List(str))
    folded = mb.source(rows).aggregate(stats["k1"]["k2"], count=agg.count(), total=agg.sum("v"))
    (
        folded.changes()
        .select("concat_ws(',', k1, k2, new.count, new.total, old.count) AS text")
        .aggregate(seen, agg.collect_list("text"))
    )
    app = cluster.deploy(module)
    topology, depot = app.topology("mb"), app.depot("rows")

    topology.pause()
    for k1, k2, v in [("a", "b", 3), ("a", "c", 2), ("d", "b", 9), ("a", "b", 4)]:
        depot.append([{"k1": k1, "k2": k2, "v": v}])
    topology.resume()
    topology.wait_processed(4)
    assert sorted(app.pstate("seen").get()) == ["a,b,2,7", "a,c,1,2", "d,b,1,9"]

    topology.pause()
    depot.append([{"k1": "a", "k2": "b", "v": 1}, {"k1": "f", "k2": "g", "v": 11}])
    topology.resume()
    topology.wait_processed(6)
    assert sorted(app.pstate("seen").get()[3:]) == ["a,b,3,8,2", "f,g,1,11"]
    assert topology.status()["committed"] == 2


@shapes
def test_a10_albums_before_the_update(cluster, partitions, vnodes):
    """The first version of the music catalogue: nested maps with lists as they were appended."""
    module = atoll.Module("a10")
    albums = module.depot(
        "albums",
        "artist string, name string, songs array<string>",
        partition_by="artist",
        partitions=partitions,
    )
    mb = module.microbatch("albums", vnode_count=vnodes)
    catalogue = mb.pstate("catalogue", Map(str, Map(str, Struct(name=str, songs=List(str)))))
    mb.source(albums).aggregate(
        catalogue["artist"]["name"], name=agg.last("name"), songs=agg.last("songs")
    )
    app = cluster.deploy(module)
    app.depot("albums").append(
        [
            {
                "artist": "Post Malone",
                "name": "F-1 Trillion",
                "songs": ["Have The Heart ft. Dolly Parton"],
            }
        ]
    )
    app.topology("albums").wait_processed(1)
    state = app.pstate("catalogue")
    assert state.select_one(path.key("Post Malone").size()) == 1
    album = path.key("Post Malone", "F-1 Trillion")
    assert state.select_one(album.field("name")) == "F-1 Trillion"
    first = state.select_one(album.field("songs").first())
    assert first == "Have The Heart ft. Dolly Parton"
