"""Rama's CustomKeyPartitioner: a function says in which vnode a key lies, for every reader.

All ways to write and to read one PState are compared with plain dicts, in every shape.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import Map, Set, agg, path
from atoll.errors import DeclarationError, DeployError, TopologyFailedError

RECORD = "user long, item string, n long"


def tens(user):
    """Users of the same ten lie together."""
    return user // 10


def add(row, totals, items):
    """Counts with the count of the vnode's other keys, which are the same ten's."""
    totals[row.user] = totals.get(row.user, 0) + row.n
    items[row.user].add(row.item)
    yield {"ten": row.user // 10, "others": sum(1 for key in totals if key // 10 != row.user // 10)}


def make_module(shape, partition_by=tens):
    """Written by aggregate, process and update; read by lookup and join."""
    module = atoll.Module("partitioned")
    depot = module.depot("records", RECORD, partition_by="user", partitions=shape.partitions)
    mb = module.microbatch("mb", vnode_count=shape.vnodes)
    totals = mb.pstate("totals", Map(int, int), partition_by=partition_by)
    items = mb.pstate("items", Map(int, Set(str)), partition_by=partition_by)
    nested = mb.pstate(
        "nested", Map(int, Map(str, int)), partition_by=partition_by, track_size=True
    )
    seen = mb.pstate("seen", Set(int), partition_by=partition_by)
    latest = mb.pstate("latest", Map(int, int), partition_by=partition_by)
    strangers = mb.pstate("strangers", Map(int, int))
    known = mb.pstate("known", Map(int, int))

    records = mb.source(depot)
    (
        records.process(
            add, key="user", states=[totals, items], emits="ten long, others long"
        ).aggregate(strangers["ten"], agg.max("others"))
    )
    records.aggregate(nested["user"]["item"], agg.sum("n"))
    records.aggregate(seen, agg.collect_set("user"))
    records.update(latest, lambda row: path.key(row.user).set(row.n), key="user")
    records.lookup(nested["user"]["item"], "before").aggregate(known["user"], agg.count("before"))
    return module


def test_every_way_to_write_and_read(run, shape):
    """Values, ranges and elements are those of plain dicts; keys of a ten share a vnode."""
    run.deploy(make_module(shape)).cut()
    dice = random.Random(shape.vnodes)
    records = [
        {"user": dice.randrange(-40, 200), "item": dice.choice("abc"), "n": dice.randrange(9)}
        for _ in range(60)
    ]
    for start in (0, 20, 40):
        run.app.depot("records").append(records[start : start + 20])
        run.app.topology("mb").wait_processed(start + 20)
        run.disturb()
    totals, nested, items, latest = Counter(), defaultdict(Counter), defaultdict(set), {}
    for each in records:
        totals[each["user"]] += each["n"]
        nested[each["user"]][each["item"]] += each["n"]
        items[each["user"]].add(each["item"])
        latest[each["user"]] = each["n"]
    users = sorted(totals)

    app = run.app
    connected = atoll.connect(app.store.root, "partitioned")
    for reader in (app, connected):
        state = {name: reader.pstate(name) for name in ("totals", "nested", "items", "seen")}
        assert state["totals"].get() == {user: totals[user] for user in users}
        assert reader.pstate("latest").get() == {user: latest[user] for user in users}
        for user in [*users[::7], 1_000]:
            assert state["totals"].get(user) == totals.get(user)
            by_item = dict(sorted(nested[user].items())) if user in nested else None
            assert state["nested"].get(user) == by_item
            key = path.key(user)
            assert state["nested"].select(key.key("a")) == [(by_item or {}).get("a")]
            assert state["nested"].select_one(key.size()) == len(by_item or {})
            found = state["items"].select(key.set_elem("b"))
            assert found == (["b"] if "b" in items.get(user, ()) else [])
            assert state["totals"].select(path.must(user)) == ([totals[user]] * (user in totals))
            assert state["seen"].select(path.set_elem(user)) == ([user] * (user in totals))
        middle = {user: totals[user] for user in users if 20 <= user < 120}
        assert state["totals"].select_one(path.sorted_range(20, 120)) == middle
        assert state["seen"].select(path.all()) == users
        assert state["nested"].select_one(path.size()) == len(users)

    view = app.pstate("totals").view()
    for vnode in range(shape.vnodes):
        held = {key for key, _ in view.scan(vnode)}
        spec = app.pstate("totals").spec
        assert all(spec.vnode_of(key) == vnode for key in held)
    tens_by_vnode = Counter(ten % shape.vnodes for ten in {user // 10 for user in users})
    if max(tens_by_vnode.values()) == 1:
        assert set(app.pstate("strangers").get().values()) == {0}
    if shape.engine == "spark":
        frame = app.dataframe("totals").collect()
        assert {row.key: row.value for row in frame} == dict(totals)


@pytest.fixture
def inline(tmp_path):
    """A cluster without Spark."""
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as cluster:
        yield cluster


class _Counts:
    partitions, vnodes = 2, 8


def test_another_function_is_refused(inline):
    """By where stored keys lie, by having one at all; the running module goes on."""
    app = inline.deploy(make_module(_Counts))
    app.depot("records").append([{"user": u, "item": "a", "n": 1} for u in range(0, 100, 5)])
    app.topology("mb").wait_processed(20)
    with pytest.raises(DeployError, match="is another function than the deployed one: key"):
        inline.update(make_module(_Counts, lambda user: user // 7))
    with pytest.raises(DeployError, match="a function is deployed, their hash declared"):
        inline.update(make_module(_Counts, None))
    app = inline.update(make_module(_Counts, lambda user: int(user / 10)))  # the same by value
    app.depot("records").append({"user": 55, "item": "b", "n": 2})
    app.topology("mb").wait_processed(21)
    assert app.pstate("totals").get(55) == 3


@pytest.mark.parametrize(
    ("function", "says"),
    [(lambda user: "x", "partition_by raised TypeError"), (lambda user: 1 // 0, "ZeroDivision")],
    ids=["text", "raises"],
)
def test_a_function_that_fails_stops_the_topology(inline, function, says):
    """With its error and the key; nothing is committed."""
    app = inline.deploy(make_module(_Counts, function))
    app.options.set("topology.microbatch.retry.max.attempts", 1)
    app.depot("records").append({"user": 7, "item": "a", "n": 1})
    with pytest.raises(TopologyFailedError, match=says):
        app.topology("mb").wait_processed(1)
    assert app.pstate("totals").get() == {}


def test_mistakes_are_found_where_they_are_declared():
    """What is no function, what is in one vnode anyway, and states that do not go together."""
    mb = atoll.Module("mistakes").microbatch("mb")
    records = mb.source(mb.module.depot("records", RECORD))
    for wrong, says in [
        (lambda: mb.pstate("a", Map(int, int), partition_by="user"), "takes a function"),
        (lambda: mb.pstate("a", Map(int, int), partition_by=lambda: 1), "with 1 arguments"),
        (lambda: mb.pstate("a", int, partition_by=tens), "lies in one vnode"),
        (lambda: mb.pstate("a", Map(int, int), is_global=True, partition_by=tens), "one vnode"),
    ]:
        with pytest.raises(DeclarationError, match=says) as caught:
            wrong()
        assert "test_custom_key_partitioner.py" in caught.value.context["declared"]
    by_ten = mb.pstate("by_ten", Map(int, int), partition_by=tens)
    by_hash = mb.pstate("by_hash", Map(int, int))
    with pytest.raises(DeclarationError, match="not by the same function"):
        records.process(lambda row, a, b: None, key="user", states=[by_ten, by_hash])
