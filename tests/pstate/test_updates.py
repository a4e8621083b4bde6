"""Holds that path transforms in a running topology end as a fold over the records would.

The records arrive in random cuts, over several depot partitions and vnode counts; what they make
is computed beside in plain dicts, record by record.
"""

from __future__ import annotations

import random

import pytest

import atoll
from atoll import List, Map, Struct, path
from atoll.errors import DeclarationError

RECORDS = "user string, day int, n int"


@pytest.fixture
def inline(tmp_path):
    """A cluster without Spark."""
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as running:
        yield running


def _more(count):
    return (count or 0) + 1


def _change(row):
    """One path per record, of every kind; None for some."""
    user = path.key(row.user)
    if row.n % 7 == 0:
        return None
    if row.n % 11 == 0:
        return user.delete()
    if row.n % 5 == 0:
        return user.field("days").sorted_range_to(row.day).delete()
    return user.multi_path(
        path.field("count").term(_more),
        path.field("days").key(row.day).end().set([row.n]),
    )


def _fold(records):
    """What the records make, in plain dicts."""
    users = {}
    for r in records:
        if r["n"] % 7 == 0:
            continue
        if r["n"] % 11 == 0:
            users.pop(r["user"], None)
        elif r["n"] % 5 == 0:
            days = users.get(r["user"], {}).get("days", {})
            for day in [d for d in days if d < r["day"]]:
                del days[day]
        else:
            user = users.setdefault(r["user"], {"count": 0, "days": {}})
            user["count"] += 1
            user["days"].setdefault(r["day"], []).append(r["n"])
    return users


@pytest.mark.parametrize(
    ("vnodes", "partitions", "seed"), [(1, 1, 1), (8, 3, 2), (64, 2, 3), (8, 4, 4)]
)
def test_updates_are_a_fold(inline, vnodes, partitions, seed):
    """In any cuts; an attempt that dies in the middle leaves nothing behind."""
    dice = random.Random(seed)
    module = atoll.Module("updates")
    depot = module.depot("records", RECORDS, partition_by="user", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=vnodes)
    users = mb.pstate("users", Map(str, Struct(count=int, days=Map(int, List(int)))))
    died = []

    def change(row):
        if row.n == 37 and len(died) < 2:
            died.append(row.user)
            raise ValueError(row.user)
        return _change(row)

    mb.source(depot).update(users, change, key="user")
    app = inline.deploy(module)
    records = [
        {"user": f"u{dice.randrange(9)}", "day": dice.randrange(6), "n": n} for n in range(1, 200)
    ]
    start = 0
    while start < len(records):
        end = start + dice.randrange(1, 80)
        app.depot("records").append(records[start:end])
        start = end
        if dice.random() < 0.5:
            app.topology("mb").wait_processed(min(start, len(records)))
    app.topology("mb").wait_processed(len(records))
    assert len(died) == 2
    assert app.pstate("users").get() == dict(sorted(_fold(records).items()))


def test_a_global_state_and_keys_of_other_types(inline):
    """Without a key where everything lies in one vnode."""
    module = atoll.Module("updates")
    depot = module.depot("records", RECORDS)
    mb = module.microbatch("mb", vnode_count=8)
    seen = mb.pstate("seen", List(int))
    days = mb.pstate("days", Map(int, int))
    mb.source(depot).update(seen, lambda row: path.end().set([row.n]))
    mb.source(depot).update(days, lambda row: path.key(row.day).term(_more), key="day")
    app = inline.deploy(module)
    app.depot("records").append([{"user": "a", "day": n % 3, "n": n} for n in range(30)])
    app.topology("mb").wait_processed(30)
    assert sorted(app.pstate("seen").get()) == list(range(30))
    assert app.pstate("days").get() == {0: 10, 1: 10, 2: 10}


def test_mistakes_are_found_where_they_are_declared():
    """With the line, and words that name update."""
    module = atoll.Module("updates")
    rows = module.microbatch("mb").source(module.depot("records", RECORDS))
    users = module.topologies["mb"].pstate("users", Map(str, int))
    for wrong, says in [
        (lambda: rows.update(users, lambda row: path.stay()), "update needs key="),
        (lambda: rows.update(users, 5, key="user"), "update takes a function"),
        (lambda: rows.update(users, lambda: None, key="user"), "with 1 arguments"),
    ]:
        with pytest.raises(DeclarationError) as caught:
            wrong()
        assert says in caught.value.message
        assert "test_updates.py" in caught.value.context["declared"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: 5, "given a int"),
        (lambda row: path.key(row.user), "does not say what"),
        (lambda row: path.key("other").set(1), "lies in vnode"),
        (lambda row: path.key(row.user).set("x"), "int"),
    ],
    ids=range(4),
)
def test_mistakes_at_run_time_name_the_record(inline, change, says):
    """The topology stops with the user's words, or sets the record aside."""
    module = atoll.Module("updates")
    dead = module.dead_letter_depot("dead")
    depot = module.depot("records", RECORDS)
    mb = module.microbatch("mb", vnode_count=64, dead_letter=dead)
    users = mb.pstate("users", Map(str, int))
    mb.source(depot).update(users, change, key="user")
    app = inline.deploy(module)
    app.depot("records").append([{"user": "ann", "day": 1, "n": 1}])
    app.topology("mb").wait_processed(1)
    (found,) = app.depot("dead").read(0, 0, 1).to_pylist()
    assert says in found["error"]
    assert app.pstate("users").get() == {}


@pytest.mark.slow
def test_keys_that_are_expressions(tmp_path):
    """Spark computes the key; the function sees the row without it."""
    module = atoll.Module("updates")
    depot = module.depot("records", "user string, at struct<day: int, n: int>", partitions=3)
    mb = module.microbatch("mb", vnode_count=16)
    users, days = mb.pstate("users", Map(str, List(int))), mb.pstate("days", Map(int, int))

    def append(row):
        assert row.asdict().keys() == {"user", "at"}
        return path.key(row.user.strip().lower()).end().set([row.at["n"]])

    rows = mb.source(depot)
    rows.update(users, append, key="lower(trim(user))")
    rows.update(days, lambda row: path.key(row.at["day"] % 4).term(_more), key="at.day % 4")
    rows.where("at.day = 3").update(
        days, lambda row: path.key(100 + row.at["day"]).term(_more), key="100 + at.day"
    )
    with atoll.LocalCluster(tmp_path / "root") as cluster:
        app = cluster.deploy(module)
        app.depot("records").append(
            [{"user": f"{'  ' * (n % 2)}U{n % 5}", "at": {"day": n % 7, "n": n}} for n in range(70)]
        )
        app.topology("mb").wait_processed(70)
        found = app.pstate("users").get()
        assert {user: sorted(ns) for user, ns in found.items()} == {
            f"u{k}": list(range(k, 70, 5)) for k in range(5)
        }
        counted = {k: sum(1 for n in range(70) if n % 7 % 4 == k) for k in range(4)}
        assert app.pstate("days").get() == {**counted, 103: 10}
