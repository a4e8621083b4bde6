"""Holds that what a subscriber receives, put onto the first value, is the value at each commit.

What the records make is computed beside in plain dicts, record by record. Some subscribers look
after each microbatch, some seldom; cuts, vnodes, failed attempts, reschedules, rollbacks and
restarts are drawn at random.
"""

from __future__ import annotations

import copy
import random
import threading

import pytest

import atoll
from atoll import List, Map, Set, Struct, path, start
from atoll.errors import FencedError, NotFoundError, PathError, UsageError
from atoll.pstate.differences import applied, between, owned
from atoll.pstate.view import PStateView
from atoll.testing import TopologyTestDriver

RECORDS = "user string, what string, day int, n int"
USERS = "abcd"


def _change(row):
    """One path per record, of every kind."""
    user = path.key(row.user)
    match row.what:
        case "count":
            return user.field("count").term(lambda n: (n or 0) + row.n)
        case "same":
            return user.field("count").term(lambda n: n)
        case "append":
            return user.field("days").key(row.day).end().set([row.n])
        case "insert":
            return user.field("days").key(row.day).beginning().set([row.n, row.n])
        case "day":
            return user.field("days").key(row.day).delete()
        case "tag":
            return user.field("tags").void_set_elem().set(f"t{row.n}")
        case "untag":
            return user.field("tags").set_elem(f"t{row.n}").delete()
        case "drop":
            return user.delete()
    raise AssertionError(row.what)


def _empty():
    return {"count": None, "days": {}, "tags": set()}


def _fold(users, r):
    """What one record makes, in plain dicts."""
    name, what = r["user"], r["what"]
    user = users.get(name) or _empty()
    match what:
        case "count":
            user["count"] = (user["count"] or 0) + r["n"]
        case "append":
            user["days"].setdefault(r["day"], []).append(r["n"])
        case "insert":
            user["days"].setdefault(r["day"], [])[:0] = [r["n"], r["n"]]
        case "day":
            user["days"].pop(r["day"], None)
        case "tag":
            user["tags"].add(f"t{r['n']}")
        case "untag":
            user["tags"].discard(f"t{r['n']}")
        case "drop":
            users.pop(name, None)
            return
    if user == _empty():
        users.pop(name, None)
    else:
        users[name] = user


WHATS = ["count", "same", "append", "insert", "day", "tag", "untag", "drop"]

PATHS = {
    "whole": (None, lambda users: users),
    "user": (path.key("a"), lambda users: users.get("a")),
    "count": (path.key("a", "count"), lambda users: (users.get("a") or _empty())["count"]),
    "days": (path.key("a").field("days"), lambda users: (users.get("a") or _empty())["days"]),
    "day": (
        path.must("a").field("days").key(1),
        lambda users: (users.get("a") or _empty())["days"].get(1),
    ),
    "tags": (path.key("a").field("tags"), lambda users: (users.get("a") or _empty())["tags"]),
    "size": (
        path.key("a").field("days").size(),
        lambda users: len((users.get("a") or _empty())["days"]),
    ),
    "first": (
        path.key("a").field("days").key(1).sublist(0, 2),
        lambda users: (users.get("a") or _empty())["days"].get(1, [])[:2],
    ),
    "counts": (
        path.subselect(path.map_vals().field("count")),
        lambda users: [users[name]["count"] for name in sorted(users)],
    ),
}


def _module(vnodes, partitions, kept=2):
    module = atoll.Module("followed")
    depot = module.depot("records", RECORDS, partition_by="user", partitions=partitions)
    mb = module.microbatch(
        "mb",
        vnode_count=vnodes,
        options={"pstate.history.seconds": 0, "pstate.history.microbatches": kept},
    )
    schema = Map(str, Struct(count=int, days=Map(int, List(int)), tags=Set(str)))
    users = mb.pstate("users", schema, track_size=vnodes > 1)  # counters are no data to tell of
    mb.source(depot, start_from=start.beginning()).update(users, _change, key="user")
    return module


def _records(dice, count):
    return [
        {
            "user": dice.choice(USERS),
            "what": dice.choice(WHATS),
            "day": dice.randint(0, 2),
            "n": dice.randint(0, 3),
        }
        for _ in range(count)
    ]


class Follower:
    """A subscriber that holds against the model what it has received."""

    def __init__(self, app, name, dice, every):
        self.path, self.expected = PATHS[name]
        self.name, self.every, self.dice = name, every, dice
        self.page_entries = dice.choice([1, 2, 5, 1000])
        self.subscription = app.subscribe("users", self.path, page_entries=self.page_entries)
        self.value, self.position, self.kinds = None, None, []

    def look(self, models):
        """Take what is there; the value is the model's at every commit told of."""
        at = None
        for change in self.subscription.pending():
            if change.kind == "change" and self.position is not None:
                before = owned(self.value)
                assert change.differences
                if self.name in {"count", "day", "size", "first", "counts"}:
                    assert change.old == before
            assert change.page == 0 or change.kind != "change"
            self.value = change.apply(self.value)
            self.kinds.append(change.kind)
            at = change
            if change.last:
                self.position = change.position
                assert self.value == self.expected(models[change.microbatch]), change
        assert at is None or at.last
        assert self.value == self.expected(models[max(models)])

    def reconnect(self, app):
        """Go on in another life, from where this one came to."""
        self.subscription.close()
        self.subscription = app.subscribe(
            "users", self.path, after=self.position, page_entries=self.page_entries
        )


@pytest.mark.parametrize("seed", range(8))
def test_changes_applied_are_the_value_at_each_commit(  # noqa: C901, PLR0912 - one case per event
    tmp_path, seed
):
    """Whatever happens between them."""
    dice = random.Random(seed)
    kept = dice.choice([2, 4, 50])
    module = _module(dice.choice([1, 3, 16]), dice.choice([1, 3]), kept)
    models, waiting, done = {0: {}}, [], {0: 0}
    records = []
    with TopologyTestDriver(module, root=tmp_path, parallelism=2, engine="inline") as driver:
        followers = [Follower(driver.app, name, dice, dice.choice([1, 1, 3, 7])) for name in PATHS]
        for turn in range(40):
            event = dice.random()
            last = max(models)
            if event < 0.08 and last > 2:
                to = dice.randint(max(0, last - kept), last)
                driver.topology("mb").rollback(to)
                driver.topology("mb").resume()
                models = {number: model for number, model in models.items() if number <= to}
                waiting = records[done[to] :]  # they are processed again
            elif event < 0.16:
                driver.app.cluster.set_parallelism("mb", f"fixed({dice.randint(1, 2)})")
            elif event < 0.22:
                driver.restart()
                for each in followers:
                    each.reconnect(driver.app)
            else:
                if event < 0.3:
                    driver.fail_next_attempt(times=2, after_work=True)
                for record in _records(dice, dice.choice([1, 3, 12])):
                    waiting.append(record)
                    records.append(record)
                    driver.depot("records").append([record])
                driver.microbatch()
            for number in range(max(models) + 1, driver.status()["committed"] + 1):
                users = copy.deepcopy(models[number - 1])
                for record in waiting:  # a reschedule takes what waits, or nothing
                    _fold(users, record)
                waiting = []
                models[number], done[number] = users, len(records)
            for each in followers:
                if turn % each.every == 0:
                    each.look(models)
        for each in followers:
            each.look(models)
        assert any("change" in each.kinds for each in followers)
        assert all(each.kinds[0] == "snapshot" for each in followers)


def test_differences_of_plain_values():
    """Each turns the old value into the new one, and says no more than what differs."""
    dice = random.Random(5)

    def value(depth):
        kind = dice.randrange(4) if depth else 3
        if kind == 0:
            return {dice.choice("abc"): value(depth - 1) for _ in range(dice.randrange(4))}
        if kind == 1:
            return [dice.randrange(3) for _ in range(dice.randrange(5))]
        if kind == 2:
            return {dice.randrange(4) for _ in range(dice.randrange(4))}
        return dice.choice([None, 1, "x", 2.5])

    for _ in range(2_000):
        old, new = value(3), value(3)
        differences = list(between(old, new))
        assert applied(owned(old), differences) == new
        assert bool(differences) == (old != new)
    (splice,) = between([1, 2, 3], [1, 9, 2, 3])
    assert (splice.kind, splice.index, splice.old, splice.new) == ("spliced", 1, [], [9])
    (nested,) = between({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    assert (nested.path, nested.old, nested.new) == (("a", "c"), 2, 3)


def test_what_rama_s_proxy_receives(tmp_path):
    """The sequence of its example: the map of a key, its counts and one key more."""
    module = atoll.Module("reactive")
    depot = module.depot("pairs", "k string, k2 string", partition_by="k")
    mb = module.microbatch("mb", vnode_count=4)
    counts = mb.pstate("counts", Map(str, Map(str, int)))
    source = mb.source(depot, start_from=start.beginning())
    source.aggregate(counts["k"]["k2"], atoll.agg.count())
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:

        def append(*pairs):
            driver.depot("pairs").append([{"k": k, "k2": k2} for k, k2 in pairs])
            driver.microbatch()

        append("ab", "ac")
        with driver.app.subscribe("counts", path.key("a")) as changes:
            first = changes.next(0)
            assert (first.kind, first.new, first.old) == ("snapshot", {"b": 1, "c": 1}, None)
            value = first.apply()
            append("ad")
            added = changes.next(0)
            assert [(each.path, each.kind, each.new) for each in added.differences] == [
                (("d",), "added", 1)
            ]
            assert (added.microbatch, added.old, added.new) == (2, None, {"d": 1})
            append("bx")
            assert changes.next(0) is None
            append("ac")
            changed = changes.next(0)
            assert [(d.path, d.kind, d.old, d.new) for d in changed.differences] == [
                (("c",), "changed", 1, 2)
            ]
            assert (changed.old, changed.new) == ({"c": 1}, {"c": 2})
            value = changed.apply(added.apply(value))
            assert value == {"b": 1, "c": 2, "d": 1}
            assert first.new == {"b": 1, "c": 1}


def test_one_change_among_100_000_elements_reads_that_one(tmp_path, monkeypatch):
    """What is read of the state is counted: the entry that changed, and no other."""
    module = atoll.Module("large")
    depot = module.depot("rows", "k string, n long, count long", partition_by="k", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    large = mb.pstate("large", Map(str, Map(int, int)))

    def fill(row, large):
        for n in range(row.n, row.n + row.count):
            large[row.k][n] = row.count

    source = mb.source(depot, start_from=start.beginning())
    source.process(fill, key="k", states=[large])
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("rows").append([{"k": "a", "n": 0, "count": 100_000}])
        driver.microbatch()
        changes = driver.app.subscribe("large", path.key("a"), page_entries=30_000)
        pages = list(changes.pending())
        assert [(page.page, page.last) for page in pages] == [
            (0, False),
            (1, False),
            (2, False),
            (3, True),
        ]
        value = None
        for page in pages:
            value = page.apply(value)
        assert value == dict.fromkeys(range(100_000), 100_000)
        read = []
        many, scan = PStateView.get_overwritten, PStateView.scan

        def counted_many(self, vnode, keys):
            read.extend(keys)
            return many(self, vnode, keys)

        def counted_scan(self, *arguments, **named):
            for pair in scan(self, *arguments, **named):
                read.append(pair[0])
                yield pair

        monkeypatch.setattr(PStateView, "get_overwritten", counted_many)
        monkeypatch.setattr(PStateView, "scan", counted_scan)
        driver.depot("rows").append([{"k": "a", "n": 77_777, "count": 1}])
        driver.microbatch()
        change = changes.next(0)
        assert [(d.path, d.old, d.new) for d in change.differences] == [((77_777,), 100_000, 1)]
        assert (change.old, change.new) == ({77_777: 100_000}, {77_777: 1})
        assert len(read) == 1
        assert change.apply(value)[77_777] == 1
        changes.close()


def test_a_subscriber_away_too_long_gets_the_value_again(tmp_path):
    """Flagged as a gap; one to whose value nothing happened meanwhile gets nothing."""
    with TopologyTestDriver(_module(4, 1), root=tmp_path, engine="inline") as driver:

        def count(user, n):
            driver.depot("records").append([{"user": user, "what": "count", "day": 0, "n": n}])
            driver.microbatch()

        count("a", 1)
        count("b", 1)
        slow = driver.app.subscribe("users", path.key("a", "count"))
        quiet = driver.app.subscribe("users", path.key("b", "count"))
        assert [slow.next(0).new, quiet.next(0).new] == [1, 1]
        for n in range(6):
            count("a", n)
        change = slow.next(0)
        assert (change.kind, change.reason, change.new) == ("resync", "gap", 16)
        assert slow.next(0) is None
        if driver.pstate("users").spec.vnode_count > 1:
            assert quiet.next(0) is None
        unknown = driver.app.subscribe("users", path.key("a", "count"), after=99)
        assert (unknown.next(0).kind, unknown.next(0)) == ("resync", None)


def test_a_rollback_is_a_resync(tmp_path):
    """With the value gone back to; after it changes go on."""
    with TopologyTestDriver(_module(4, 1, 10), root=tmp_path, engine="inline") as driver:

        def count(n):
            driver.depot("records").append([{"user": "a", "what": "count", "day": 0, "n": n}])
            driver.microbatch()

        for n in (1, 2, 3):
            count(n)
        changes = driver.app.subscribe("users", path.key("a", "count"))
        assert changes.next(0).new == 6
        driver.topology("mb").rollback(2)
        gone = changes.next(0)
        assert (gone.kind, gone.reason, gone.new, gone.position) == ("resync", "rollback", 3, "2@1")
        driver.topology("mb").resume()
        driver.microbatch()
        again = changes.next(0)
        assert (again.kind, again.old, again.new, again.position) == ("change", 3, 6, "3@1")
        later = driver.app.subscribe("users", path.key("a", "count"), after="2@1")
        assert [change.new for change in later.pending()] == [6]
        stale = driver.app.subscribe("users", path.key("a", "count"), after="3")
        assert stale.next(0).reason == "rollback"


def test_whoever_waits_is_told_and_can_be_closed_from_another_thread(tmp_path):
    """On a cluster that runs by itself, here and from another connection to the root."""
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(_module(4, 1))
        connected = atoll.connect(tmp_path, "followed")
        for source in (app, connected):
            changes = source.subscribe("users", path.key("a", "count"))
            first = changes.next(10)
            received, told = [], threading.Event()

            def listen(changes=changes, received=received, told=told):
                for change in changes:
                    received.append(change.new)
                    told.set()

            listener = threading.Thread(target=listen)
            listener.start()
            app.depot("records").append([{"user": "a", "what": "count", "day": 0, "n": 5}])
            assert told.wait(30)
            changes.close()
            listener.join(30)
            assert not listener.is_alive()
            assert received == [(first.new or 0) + 5]
            assert changes.next(0) is None
        waiting = app.subscribe("users")
        assert waiting.next(10).kind == "snapshot"
        ended = threading.Thread(target=lambda: list(waiting))
        ended.start()
    ended.join(30)
    assert not ended.is_alive()
    assert waiting.closed


def test_what_cannot_be_followed_is_refused(tmp_path):
    """Private state, unknown names, paths to several values, positions that are none."""
    module = atoll.Module("refusals")
    depot = module.depot("records", "k string", partitions=1)
    mb = module.microbatch("mb", vnode_count=2)
    seen = mb.pstate("seen", Map(str, int))
    hidden = mb.pstate("hidden", Map(str, int), private=True)
    source = mb.source(depot, start_from=start.beginning())
    source.aggregate(seen["k"], atoll.agg.count())
    source.aggregate(hidden["k"], atoll.agg.count())
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("records").append([{"k": "a"}, {"k": "b"}])
        driver.microbatch()
        subscribe = driver.app.subscribe
        for name in ("hidden", "none"):
            with pytest.raises(NotFoundError):
                subscribe(name)
            with pytest.raises(NotFoundError):
                atoll.connect(tmp_path, "refusals").subscribe(name)
        with pytest.raises(PathError, match="has no keys"):
            subscribe("seen", path.key("a", "b"))
        with pytest.raises(PathError, match="leads to 2 values"):
            subscribe("seen", path.map_vals()).next(0)
        for position in ("x", "1@2@3", "-1", "٣", ""):
            with pytest.raises(UsageError):
                subscribe("seen", after=position)
        with pytest.raises(UsageError):
            subscribe("seen", page_entries=0)


def test_who_is_fenced_says_so(tmp_path):
    """A subscriber of a life that another one took over is told, and can go on there."""

    def count(app, n):
        app.depot("records").append([{"user": "a", "what": "count", "day": 0, "n": n}])

    with atoll.LocalCluster(tmp_path, engine="inline") as first:
        app = first.deploy(_module(4, 1))
        changes = app.subscribe("users", path.key("a", "count"))
        assert changes.next(30).kind == "snapshot"
        count(app, 1)
        assert changes.next(30).new == 1
        with atoll.LocalCluster(tmp_path, engine="inline") as second:
            later = second.deploy(_module(4, 1))
            with pytest.raises(FencedError):
                changes.next(60)
            again = later.subscribe("users", path.key("a", "count"), after=changes.position)
            count(later, 2)
            change = again.next(30)
            assert (change.kind, change.old, change.new) == ("change", 1, 3)


@pytest.mark.parametrize("page_entries", [1, 2, 1000])
def test_schemas_of_every_kind_at_the_top(tmp_path, page_entries):
    """A number with an initial value, a set, a struct stored field by field, sets in a map."""
    module = atoll.Module("kinds")
    depot = module.depot("rows", "k string, n long, add boolean", partition_by="k", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    total = mb.pstate("total", int, initial=0)
    names = mb.pstate("names", Set(str))
    both = mb.pstate("both", Struct(last=int, names=Set(str), by=Map(str, int)))
    sets = mb.pstate("sets", Map(str, Set(int)))
    source = mb.source(depot, start_from=start.beginning())
    source.aggregate(total, atoll.agg.sum("n"))

    def put(row, names, sets):
        if row.add:
            names.add(row.k)
            sets[row.k].add(row.n)
        else:
            names.discard(row.k)
            sets[row.k].discard(row.n)

    def put_all(row, both):
        both["last"] = row.n if row.add else None
        if row.add:
            both["names"].add(row.k)
            both["by"][row.k] = row.n
        elif row.k in both["by"]:
            both["names"].discard(row.k)
            del both["by"][row.k]

    source.process(put, key="k", states=[names, sets])
    source.process(put_all, states=[both])
    dice = random.Random(page_entries)
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        subscribe = driver.app.subscribe
        followed = {
            name: subscribe(name, page_entries=page_entries)
            for name in ("total", "names", "both", "sets")
        }
        values = dict.fromkeys(followed)
        for _turn in range(25):
            for name, changes in followed.items():
                for change in changes.pending():
                    values[name] = change.apply(values[name])
                assert values[name] == driver.pstate(name).select_one(path.stay()), name
            driver.depot("rows").append(
                [
                    {"k": dice.choice("abc"), "n": dice.randrange(3), "add": dice.random() < 0.6}
                    for _ in range(dice.choice([1, 3]))
                ]
            )
            driver.microbatch()
        late = subscribe("sets", page_entries=page_entries)
        value = None
        for change in late.pending():
            value = change.apply(value)
        assert value == driver.pstate("sets").get()
