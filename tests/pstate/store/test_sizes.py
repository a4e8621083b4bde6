"""Sizes that are kept: right after everything that can happen to entries, and read at once.

A module writes one PState in every way there is, with random records in random cuts; plain dicts
fold the same records. Between microbatches attempts fail, the process dies, local stores vanish,
the topology goes back and its parallelism changes.
"""

from __future__ import annotations

import random
import shutil

import pytest

import atoll
from atoll import Map, Set, Struct, agg, path
from atoll.codec.keys.elements import DATA_END
from atoll.errors import DeclarationError, DeployError
from atoll.fsck.root import check_root
from atoll.pstate.store.sizes import SIZES_COMPLETE, counter_key, size_of
from atoll.testing import TopologyTestDriver

RECORD = "user string, item string, n long"
USERS = Map(str, Struct(name=str, items=Map(str, Map(int, int)), tags=Set(str)))


def write(row, users):
    """One change, of a kind that its number chooses; it says how large what it changed is then."""
    user = users[row.user]
    match row.n % 8:
        case 0:
            users.transform(path.key(row.user).delete())
        case 1:
            user["tags"].add(row.item)
        case 2:
            user["tags"].discard(row.item)
        case 3:
            user["items"].clear()
        case 4:
            users.transform(path.key(row.user).field("items").key(row.item).delete())
        case 5:
            user["name"] = row.item
        case _:
            user["items"][row.item][row.n % 5] = row.n
    inner = len(user["items"][row.item])
    known = users.select(path.key(row.user).field("items").key(row.item).size())[0]
    yield {"n": row.n, "said": len(user["items"]) * 100 + inner * 10 + len(user["tags"])}
    assert known == inner


def fold(users, row):
    """The same in plain dicts."""
    user = users.setdefault(row["user"], {"items": {}, "tags": set()})
    item, n = row["item"], row["n"]
    match n % 8:
        case 0:
            users.pop(row["user"])
        case 1:
            user["tags"].add(item)
        case 2:
            user["tags"].discard(item)
        case 3:
            user["items"].clear()
        case 4:
            user["items"].pop(item, None)
        case 5:
            user["name"] = item
        case _:
            user["items"].setdefault(item, {})[n % 5] = n
    left = users.get(row["user"], {"items": {}, "tags": set()})
    if not any(left.values()):
        users.pop(row["user"], None)
    inner = len(left["items"].get(item, {}))
    return len(left["items"]) * 100 + inner * 10 + len(left["tags"])


def make_module(vnodes, partitions, *, track_size=True):
    """Nested collections by ``process``, flat ones by aggregates, one on Spark's global terms."""
    module = atoll.Module("sizes")
    depot = module.depot("records", RECORD, partition_by="user", partitions=partitions)
    options = {"pstate.history.microbatches": 20, "pstate.checkpoint.interval.commits": 5}
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    users = mb.pstate("users", USERS, track_size=track_size)
    flat = mb.pstate("flat", Map(str, int), track_size=track_size)
    tags = mb.pstate("tags", Map(str, Set(str)), track_size=track_size)
    every = mb.pstate("every", Set(str), is_global=True, track_size=track_size)
    said = mb.pstate("said", Map(int, int))
    rows = mb.source(depot)
    rows.process(write, key="user", states=[users], emits="n long, said long").aggregate(
        said["n"], agg.last("said")
    )
    rows.aggregate(flat["item"], agg.count())
    kept, gone = rows.branch(lambda row: row.n % 3 > 0)
    kept.aggregate(tags["user"], agg.collect_set("item"))
    gone.aggregate(tags["user"], agg.remove_from_set("item"))
    rows.aggregate(every, agg.collect_set("item"))
    return module


def check_sizes(app, *, complete=True):
    """Every size that a reader is told is the number of what it can read, level by level."""
    state = {name: app.pstate(name) for name in ("users", "flat", "tags", "every")}
    whole = {name: each.get() for name, each in state.items()}
    for name, each in state.items():
        assert each.select_one(path.size()) == len(whole[name]), name
    for user, value in whole["users"].items():
        key = path.key(user)
        assert state["users"].select_one(key.field("tags").size()) == len(value["tags"])
        assert state["users"].select_one(key.field("items").size()) == len(value["items"])
        for item, inner in value["items"].items():
            at = key.field("items").key(item)
            assert state["users"].select_one(at.size()) == len(inner)
    for user, tags in whole["tags"].items():
        assert state["tags"].select_one(path.key(user).size()) == len(tags)
    missing = path.key("nobody")
    assert state["tags"].select_one(missing.size()) == 0
    assert state["users"].select_one(missing.field("items").key("x").size()) == 0
    if complete:
        _check_counters(state["tags"], whole["tags"])
    return whole


def _check_counters(tags, whole):
    """What is stored is exactly the sizes above zero, and data is never taken for it."""
    stored = {}
    view = tags.view()
    for vnode in range(tags.spec.vnode_count):
        everything = dict(view.scan(vnode, high=b"\xff\xff"))
        data = dict(view.scan(vnode))
        hidden = {key: value for key, value in everything.items() if key not in data}
        assert all(key < DATA_END for key in data)
        if everything:
            assert hidden.pop(SIZES_COMPLETE)
            outer = size_of(hidden.pop(counter_key(b""), None))
            assert outer == len(hidden)
            stored.update(hidden)
    assert sorted(map(size_of, stored.values())) == sorted(map(len, whole.values()))


def _records(dice, count, first):
    return [
        {"user": f"u{dice.randrange(6)}", "item": dice.choice("abcd"), "n": first + n}
        for n in range(count)
    ]


@pytest.mark.parametrize(("vnodes", "partitions", "seed"), [(1, 1, 1), (4, 3, 2), (16, 2, 3)])
def test_sizes_are_those_of_a_model(tmp_path, vnodes, partitions, seed):
    """Over failed attempts, deaths, lost stores and going back, in random cuts."""
    dice = random.Random(seed)
    module = make_module(vnodes, partitions)
    users, said, records = {}, {}, []
    with TopologyTestDriver(module, root=tmp_path / "root", engine="inline") as driver:
        for _ in range(5):
            more = _records(dice, dice.randrange(1, 40), len(records))
            records += more
            driver.depot("records").append(more)
            for row in more:
                said[row["n"]] = fold(users, row)
            if dice.random() < 0.6:
                driver.fail_next_attempt(times=dice.randrange(1, 3), after_work=True)
            while driver.microbatch(max_records=dice.randrange(3, 30)):
                if dice.random() < 0.2:
                    driver.step()
                    driver.step()
                    driver.restart()
            committed = driver.status()["committed"]
            if committed > 2 and dice.random() < 0.4:
                driver.topology("mb").rollback(max(committed - dice.randrange(1, 4), 1))
                check_sizes(driver.app)
                driver.topology("mb").resume()
                driver.run_until_idle()
            if dice.random() < 0.3:
                driver.cluster.kill()
                shutil.rmtree(tmp_path / "root" / "local", ignore_errors=True)
                driver.restart()
            whole = check_sizes(driver.app)
            assert {user: value["items"] for user, value in whole["users"].items()} == {
                user: users[user]["items"] for user in sorted(users)
            }
        assert driver.pstate("said").get() == said


def test_sizes_go_along_with_vnodes(tmp_path):
    """Workers come and go between microbatches, each with stores of its own to build."""
    dice = random.Random(7)
    root = tmp_path / "root"
    with atoll.LocalCluster(root, parallelism=2, engine="inline") as cluster:
        app = cluster.deploy(make_module(16, 3))
        for turn in range(4):
            app.depot("records").append(_records(dice, 30, 30 * turn))
            app.topology("mb").wait_processed(30 * (turn + 1))
            if turn % 2:
                cluster.lose_worker("late")
            else:
                cluster.add_worker("late", 3)
            check_sizes(app)
        check_sizes(atoll.connect(root, "sizes"))
        app.topology("mb").checkpoint()
    report = check_root(root, stores=True)
    assert report.stores
    assert list(report.damages()) == []


def test_a_state_that_was_there_before(tmp_path):
    """It is counted while nothing has been written since, and once with the first write after."""
    dice = random.Random(11)
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(make_module(4, 2, track_size=False))
        app.depot("records").append(_records(dice, 60, 0))
        app.topology("mb").wait_processed(60)
        before = check_sizes(app, complete=False)
        app = cluster.update(make_module(4, 2))
        assert check_sizes(app, complete=False) == before
        app.depot("records").append(_records(dice, 60, 60))
        app.topology("mb").wait_processed(120)
        check_sizes(app)
        with pytest.raises(DeployError, match="tracks sizes, and no longer would"):
            cluster.update(make_module(4, 2, track_size=False))


def test_a_size_is_read_without_the_elements(tmp_path, monkeypatch):
    """Of 3,000 elements none is read for a size, by a client or in a step; else all are."""
    from atoll.pstate.store.entries import Entries

    read = []
    real = Entries.page

    def counting(self, *arguments, **keywords):
        page = real(self, *arguments, **keywords)
        read.append(len(page.pairs))
        return page

    lengths = []

    def fill(row, many, slow):
        if row.n == 0:
            many[0] = slow[0] = dict.fromkeys(range(3_000), 1)
            return
        for state in (many, slow):
            read.clear()
            lengths.append((len(state[0]), sum(read)))

    module = atoll.Module("large")
    depot = module.depot("records", "n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    many = mb.pstate("many", Map(int, Map(int, int)), track_size=True)
    slow = mb.pstate("slow", Map(int, Map(int, int)))
    mb.source(depot).map(lambda row: {"n": row.n, "k": 0}, emits="n long, k long").process(
        fill, key="k", states=[many, slow]
    )
    with TopologyTestDriver(module, root=tmp_path / "root", engine="inline") as driver:
        driver.depot("records").append({"n": 0})
        driver.microbatch()
        monkeypatch.setattr(Entries, "page", counting)
        driver.depot("records").append({"n": 1})
        driver.microbatch()
        assert lengths == [(3_000, 0), (3_000, 3_000)]
        for name, most in (("many", 0), ("slow", 3_000)):
            read.clear()
            assert driver.pstate(name).select_one(path.key(0).size()) == 3_000
            assert sum(read) == most


def test_one_value_has_no_size_to_track():
    """Refused on its line."""
    mb = atoll.Module("mistakes").microbatch("mb")
    with pytest.raises(DeclarationError, match="is one value") as caught:
        mb.pstate("total", int, track_size=True)
    assert "test_sizes.py" in caught.value.context["declared"]


def test_rows_that_are_set_aside_leave_no_trace(tmp_path):
    """What a function wrote, and counted, before it raised is taken back with its counters."""

    def add(row, tags):
        mine = tags[row.user]
        mine.add(row.item)
        size = len(mine)
        mine.discard("a")
        if row.n % 3 == 0:
            raise ValueError(f"{size} were there")

    module = atoll.Module("aside")
    dead = module.dead_letter_depot("dead")
    depot = module.depot("records", RECORD, partition_by="user", partitions=2)
    mb = module.microbatch("mb", vnode_count=4, dead_letter=dead)
    tags = mb.pstate("tags", Map(str, Set(str)), track_size=True)
    mb.source(depot).process(add, key="user", states=[tags])
    dice, expected = random.Random(5), {}
    records = _records(dice, 90, 1)
    for row in records:
        if row["n"] % 3:
            expected.setdefault(row["user"], set()).add(row["item"])
            expected[row["user"]].discard("a")
    with TopologyTestDriver(module, root=tmp_path / "root", engine="inline") as driver:
        for part in (records[:25], records[25:60], records[60:]):
            driver.depot("records").append(part)
            driver.fail_next_attempt(after_work=True)
            driver.microbatch()
        state = driver.pstate("tags")
        whole = {user: items for user, items in expected.items() if items}
        assert state.get() == dict(sorted(whole.items()))
        _check_counters(state, whole)
        for user, items in whole.items():
            assert state.select_one(path.key(user).size()) == len(items)
        assert sum(driver.depot("dead").end_offsets()) == 30
