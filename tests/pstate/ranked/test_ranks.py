"""Ranks that are kept: right after everything that can happen to entries, and read in few steps.

A module writes ranked maps and sets by aggregates and by ``process``, with random records in random
cuts: values rise, fall and vanish, and many are equal. Plain dicts fold the same records and are
sorted anew. Blocks are made small, so that a few hundred entries have several levels of them.
"""

from __future__ import annotations

import math
import random
import shutil

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg, path
from atoll.errors import DeclarationError, DeployError, PathError
from atoll.fsck.root import check_root
from atoll.pstate.ranked import group, layout, reading
from atoll.pstate.ranked.layout import HEADS, LEVELS, MARK, level_of
from atoll.testing import TopologyTestDriver

RECORD = "k long, g string, v long, w double"
OPTIONS = {"pstate.history.microbatches": 20, "pstate.checkpoint.interval.commits": 5}
BOARD = Map(int, Struct(score=int | None, name=str), ranked=["-score", "name"])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Every other place begins a block, every fourth one of the second level; few is very few."""
    monkeypatch.setattr(layout, "_BITS", 1)
    monkeypatch.setattr(reading, "_FEW", 4)
    monkeypatch.setattr(reading, "_FEW_EACH", 2)
    monkeypatch.setattr(group, "_BLOCKS_MAX", 20)


def make_module(vnodes, partitions, *, ranked=True):
    """A map over all vnodes, maps by group, averages, and a set."""
    module = atoll.Module("ranks")
    depot = module.depot("records", RECORD, partition_by="g", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=vnodes, options=OPTIONS)
    board = mb.pstate("board", BOARD if ranked else Map(int, Struct(score=int | None, name=str)))
    by_value = "-value" if ranked else ()
    groups = mb.pstate("groups", Map(str, Map(int, float, ranked=by_value)), track_size=True)
    means = mb.pstate(
        "means", Map(str, Map(int, float, ranked=["value", "-key"] if ranked else ()))
    )
    seen = mb.pstate("seen", Set(int, ranked=ranked))
    told = mb.pstate("told", Map(str, Struct(best=List(int), n=List(int))))
    rows = mb.source(depot)

    def on_board(row, board):
        if row.v % 5 == 0:
            board.pop(row.k, None)
        else:
            board[row.k] = {"score": None if row.v % 7 == 0 else row.v % 11, "name": row.g}

    def in_group(row, groups):
        mine = groups[row.g]
        if row.v % 4 == 0:
            mine.pop(row.k, None)
        else:
            mine[row.k] = row.w
        if ranked:
            first = [key for key, _ in mine.select(path.top(2))]
            yield {"g": row.g, "best": first, "n": mine.select(path.rank_of(row.k))}

    rows.process(on_board, key="k", states=[board])
    emitted = "g string, best array<long>, n array<long>"
    said = rows.process(in_group, key="g", states=[groups], emits=emitted)
    said.aggregate(told["g"], best=agg.last("best"), n=agg.last("n"))
    rows.aggregate(means["g"]["k"], agg.avg("v"))
    rows.aggregate(seen, agg.collect_set("k", remove="v % 3 = 0"))
    return module


class Model:
    """The same in plain dicts, sorted when asked."""

    def __init__(self):
        self.board, self.groups, self.sums, self.seen = {}, {}, {}, set()
        self.told = {}

    def add(self, row):
        """One record."""
        k, g, v, w = row["k"], row["g"], row["v"], row["w"]
        self.board.pop(k, None)
        if v % 5:
            self.board[k] = {"score": None if v % 7 == 0 else v % 11, "name": g}
        mine = self.groups.setdefault(g, {})
        mine.pop(k, None)
        if v % 4:
            mine[k] = w
        ranked = [key for key, _ in self.group(g)]
        self.told[g] = {"best": ranked[:2], "n": [ranked.index(k)] if k in mine else []}
        total, count = self.sums.setdefault(g, {}).get(k, (0, 0))
        self.sums[g][k] = total + v, count + 1
        (self.seen.discard if v % 3 == 0 else self.seen.add)(k)

    def ranked_board(self):
        """By falling score, then by name."""
        held = [each for each in self.board.items() if each[1]["score"] is not None]
        return sorted(held, key=lambda e: (-e[1]["score"], e[1]["name"], e[0]))

    def group(self, g):
        """By falling value."""
        return sorted(self.groups[g].items(), key=lambda e: (-e[1], e[0]))

    def means(self, g):
        """By rising average, of equal ones the greatest key first."""
        means = {k: total / count for k, (total, count) in self.sums[g].items()}
        return sorted(means.items(), key=lambda e: (e[1], -e[0]))


def records(dice, count):
    """Of few keys, groups and values, so that all of them meet again."""
    return [
        {
            "k": dice.randrange(90),
            "g": dice.choice("ab"),
            "v": dice.randrange(200),
            "w": float(dice.randrange(6)),
        }
        for _ in range(count)
    ]


def check_order(dice, state, at, want, orders):
    """Every way to ask for a map or set whose ranking is known."""
    assert state.select(at.ranked()) == want
    size = len(want)
    for _ in range(3):
        start, stop = dice.randrange(-size - 2, size + 3), dice.randrange(-size - 2, size + 3)
        assert state.select(at.ranked(start, stop)) == want[start:stop]
    assert state.select(at.top(4)) == want[:4]
    keys = [each[0] if isinstance(each, tuple) else each for each in want]
    for key in dice.sample(keys, min(4, size)):
        rank = keys.index(key)
        assert state.select(at.rank_of(key)) == [rank]
        assert state.select(at.around(key, 2, 1)) == want[max(rank - 2, 0) : rank + 2]
    assert state.select(at.rank_of(10_000)) == []
    for share in (0, 0.5, 0.9, 1):
        assert state.select(at.quantile(share)) == want[max(math.ceil(share * size), 1) - 1 :][:1]
    for asked, before, after in orders:
        assert state.select(at.ranked_before(*asked)) == [e for e in want if before(e)]
        assert state.select(at.ranked_after(*asked)) == [e for e in want if after(e)]


def check_all(dice, app, model):
    """All four, and what the function of ``process`` saw."""
    board, seen = app.pstate("board"), sorted(model.seen)
    score = dice.randrange(11)
    orders = [
        ((score,), lambda e: e[1]["score"] > score, lambda e: e[1]["score"] < score),
        ((score + 0.5,), lambda e: e[1]["score"] > score, lambda e: e[1]["score"] <= score),
        (
            (score, "a"),
            lambda e: e[1]["score"] > score,
            lambda e: e[1]["score"] < score or (e[1]["score"] == score and e[1]["name"] > "a"),
        ),
    ]
    check_order(dice, board, path, model.ranked_board(), orders)
    middle = dice.randrange(90)
    check_order(
        dice,
        app.pstate("seen"),
        path,
        seen,
        [((middle,), lambda e: e < middle, lambda e: e > middle)],
    )
    for g in model.groups:
        check_order(dice, app.pstate("groups"), path.key(g), model.group(g), [])
        check_order(dice, app.pstate("means"), path.key(g), model.means(g), [])
    assert app.pstate("told").get() == dict(sorted(model.told.items()))
    for name in ("board", "groups", "means", "seen"):
        check_blocks(app.pstate(name))


def check_blocks(state):
    """What is stored beside the data is what a store would have that was filled at once."""
    view, ranks = state.view(), state.spec.ranks
    for vnode in range(state.spec.vnode_count):
        data = dict(view.scan(vnode))
        beside = dict(view.scan(vnode, HEADS[0], MARK + b"\x00"))
        if not beside:
            assert not data
            continue
        assert beside.pop(MARK) == ranks.mark
        expected = {}
        (seats,) = ranks.seats(list(data), list(data.values()))
        for level in range(1, LEVELS):
            open_block = None
            for seat in sorted(seats):
                group = seat[: seats[seat].group]
                if level_of(seat) >= level:
                    open_block = (group, HEADS[level] + seat)
                if open_block is not None and open_block[0] == group:
                    expected[open_block[1]] = expected.get(open_block[1], 0) + 1
        for seat, ranked in seats.items():
            expected[HEADS[0] + seat] = ranked.element
        assert {key: int.from_bytes(value) for key, value in beside.items()} == expected


@pytest.mark.parametrize(("vnodes", "partitions", "seed"), [(1, 1, 1), (4, 3, 2)])
def test_ranks_are_those_of_a_model(tmp_path, vnodes, partitions, seed):
    """Over failed attempts, deaths, lost stores and going back, in random cuts."""
    dice = random.Random(seed)
    model = Model()
    module = make_module(vnodes, partitions)
    with TopologyTestDriver(module, root=tmp_path / "root", engine="inline") as driver:
        for turn in range(4):
            more = records(dice, dice.randrange(60, 140))
            driver.depot("records").append(more)
            for row in more:
                model.add(row)
            driver.fail_next_attempt(times=1 + turn % 2, after_work=True)
            while driver.microbatch(max_records=dice.randrange(20, 90)):
                if dice.random() < 0.3:
                    driver.step()
                    driver.step()
                    driver.restart()
            if turn == 1:
                committed = driver.status()["committed"]
                driver.topology("mb").rollback(max(committed - 2, 1))
                for name in ("board", "groups", "means", "seen"):
                    check_blocks(driver.pstate(name))
                driver.topology("mb").resume()
                driver.run_until_idle()
            if turn == 2:
                driver.cluster.kill()
                shutil.rmtree(tmp_path / "root" / "local", ignore_errors=True)
                driver.restart()
            check_all(dice, driver.app, model)


def test_ranks_go_along_with_vnodes(tmp_path):
    """Workers come and go between microbatches; clients of other processes read the same."""
    dice = random.Random(7)
    model, root = Model(), tmp_path / "root"
    with atoll.LocalCluster(root, parallelism=2, engine="inline") as cluster:
        app = cluster.deploy(make_module(8, 1))
        for turn in range(3):
            more = records(dice, 80)
            for row in more:
                model.add(row)
            app.depot("records").append(more)
            app.topology("mb").wait_processed(80 * (turn + 1))
            if turn % 2:
                cluster.lose_worker("late")
            else:
                cluster.add_worker("late", 3)
            check_all(dice, app, model)
        check_all(dice, atoll.connect(root, "ranks"), model)
    report = check_root(root, stores=True)
    assert report.stores
    assert list(report.damages()) == []


def _small(board, *, migrated=False):
    module = atoll.Module("small")
    depot = module.depot("records", "k long, v long", partition_by="k", partitions=1)
    mb = module.microbatch("mb", vnode_count=2, options=OPTIONS)
    state = mb.pstate("board", board)
    if migrated:
        state.migrated("turned", lambda value: f"{1000 - value:04}")
    text = "CAST(v AS STRING)" if migrated else "v"
    mb.source(depot).aggregate(state["k"], agg.last(text))
    return module


def _fill(app, start, stop):
    app.depot("records").append([{"k": k, "v": k * 37 % 101} for k in range(start, stop)])
    app.topology("mb").wait_processed(stop)


def test_a_state_that_was_there_before(tmp_path):
    """It is sorted while nothing has been written since, and gone through once with a write."""
    plain = {k: k * 37 % 101 for k in range(60)}
    falling = sorted(plain.items(), key=lambda e: (-e[1], e[0]))
    rising = sorted(plain.items(), key=lambda e: (e[1], e[0]))
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as cluster:
        _fill(cluster.deploy(_small(Map(int, int))), 0, 50)
        app = cluster.update(_small(Map(int, int, ranked="-value")))
        assert app.pstate("board").select(path.ranked()) == [e for e in falling if e[0] < 50]
        _fill(app, 50, 60)
        assert app.pstate("board").select(path.ranked()) == falling
        check_blocks(app.pstate("board"))
        app = cluster.update(_small(Map(int, int, ranked="value")))
        assert app.pstate("board").select(path.ranked()) == rising
        assert app.pstate("board").select(path.rank_of(rising[20][0])) == [20]
        with pytest.raises(DeployError, match="is ranked, and no longer would"):
            cluster.update(_small(Map(int, int)))
        app = cluster.update(_small(Map(int, str, ranked="value"), migrated=True))
        turned = [(k, f"{1000 - v:04}") for k, v in plain.items()]
        turned.sort(key=lambda e: (e[1], e[0]))
        assert app.pstate("board").select(path.ranked(5, 9)) == turned[5:9]
        app.depot("records").append({"k": 3, "v": 5})
        app.topology("mb").wait_processed(61)
        turned = sorted([*(e for e in turned if e[0] != 3), (3, "5")], key=lambda e: (e[1], e[0]))
        assert app.pstate("board").select(path.ranked()) == turned


def test_few_entries_are_touched(tmp_path, monkeypatch):
    """Of 3,000 entries a read takes in a few hundred, and a change a few tens, of both kinds."""
    from atoll.pstate.store.entries import Entries

    monkeypatch.setattr(layout, "_BITS", 4)
    read, written = [], []
    page, put = Entries.page, Entries.put_many

    def paging(self, *arguments, **keywords):
        found = page(self, *arguments, **keywords)
        read.append(len(found.pairs))
        return found

    def putting(self, keys, values):
        written.append(len(keys))
        put(self, keys, values)

    module = atoll.Module("many")
    depot = module.depot("records", "k long, v long", partitions=1)
    mb = module.microbatch("mb")
    board = mb.pstate("board", Map(int, int, ranked="-value"), is_global=True)
    mb.source(depot).aggregate(board["k"], agg.last("v"))
    with TopologyTestDriver(module, root=tmp_path / "root", engine="inline") as driver:
        driver.depot("records").append([{"k": k, "v": k * 7919 % 3001} for k in range(3_000)])
        driver.microbatch()
        monkeypatch.setattr(Entries, "page", paging)
        monkeypatch.setattr(Entries, "put_many", putting)
        driver.depot("records").append({"k": 1_500, "v": 1_000})
        driver.microbatch()
        assert 3 <= sum(written) <= 12
        assert sum(read) <= 200
        state = driver.pstate("board")
        want = {**{k: k * 7919 % 3001 for k in range(3_000)}, 1_500: 1_000}
        want = sorted(want.items(), key=lambda e: (-e[1], e[0]))
        for asked, answer in (
            (path.ranked(2_000, 2_003), want[2_000:2_003]),
            (path.rank_of(want[1_234][0]), [1_234]),
            (path.quantile(0.5), [want[1_499]]),
            (path.ranked(-2), want[-2:]),
        ):
            read.clear()
            assert state.select(asked) == answer
            assert sum(read) <= 900


def test_what_is_no_order_is_refused():
    """Where it is declared, and where a path asks for it."""
    for declared in (
        lambda: Map(int, int, ranked="-price"),
        lambda: Map(int, Struct(a=int), ranked="value"),
        lambda: Map(int, Struct(a=int), ranked=["a", "-a"]),
        lambda: Map(int, List(int), ranked="value"),
        lambda: Map(int, Map(int, int), ranked="value"),
        lambda: Map(int, int, ranked=3),
        lambda: Set(int, ranked="value"),
    ):
        with pytest.raises(DeclarationError) as caught:
            declared()
        assert caught.value.hint
    assert str(Map(str, int, ranked="-value")) == "Map(str, int, ranked='-value')"
    assert str(Set(str, ranked=True)) == "Set(str, ranked='key')"
    module = atoll.Module("asked")
    mb = module.microbatch("mb")
    mb.pstate("plain", Map(int, int))
    mb.pstate("board", Map(str, BOARD))
    mb.source(module.depot("d", "k long, v long")).aggregate(mb.pstate("t", int), agg.count())
    with TopologyTestDriver(module, engine="inline") as driver:
        plain, board = driver.pstate("plain"), driver.pstate("board")
        for state, asked, why in (
            (plain, path.top(3), "this map is not ranked"),
            (board, path.top(3), "this map is not ranked"),
            (board, path.key("a").ranked_before(1, "x", 3), "names 3 values"),
            (board, path.key("a").ranked_before("x"), "does not fit"),
            (board, path.key("a").rank_of("x"), "does not fit"),
            (board, path.key("a").key(1).field("name").top(1), "is not ranked"),
            (board, path.key("a").sub_map(1).top(1), "no ranks"),
        ):
            with pytest.raises(PathError, match=why):
                state.select(asked)
        assert board.select(path.key("a").top(3)) == []
        assert board.select(path.key("a").quantile(0.5)) == []
    for wrong in (
        lambda: path.top(-1),
        lambda: path.top("3"),
        lambda: path.ranked(0.5),
        lambda: path.quantile(2),
        lambda: path.around(1, -1),
        path.ranked_before,
    ):
        with pytest.raises(PathError):
            wrong()


def test_ranks_are_asked_from_everywhere():
    """By JSON, as over HTTP, and by queries, with columns of their own."""
    module = atoll.Module("asked")
    depot = module.depot("records", "g string, k long, v long", partition_by="g", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    board = mb.pstate("board", Map(str, Map(int, int, ranked="-value")))
    mb.source(depot).aggregate(board["g"]["k"], agg.sum("v"))
    (
        module.query("best", g=str, n=int)
        .select_from(board, lambda row: path.key(row.g).top(row.n), emits="k long, v long")
        .select("k", "v")
        .returns(rows="all")
    )
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("records").append([{"g": "a", "k": k, "v": k * 7 % 10} for k in range(10)])
        driver.run_until_idle()
        driver.depot("records").append([{"g": "a", "k": 7, "v": -9}])
        driver.run_until_idle()
        assert driver.app.query("best", g="a", n=2) == [{"k": 4, "v": 8}, {"k": 1, "v": 7}]
        state = driver.pstate("board")
        for asked, answer in (
            ([["key", "a"], ["top", 1]], [(4, 8)]),
            ([["key", "a"], ["ranked", -1]], [(7, 0)]),
            ([["key", "a"], ["ranked", 1, None], ["nth", 0]], None),
            ([["key", "a"], ["rank_of", 1]], [1]),
            ([["key", "a"], ["quantile", 0.5]], None),
            ([["key", "a"], ["around", 4, 1, 1]], [(4, 8), (1, 7)]),
            ([["key", "a"], ["ranked_after", 1]], [(0, 0), (7, 0)]),
        ):
            read = path.from_json(asked)
            found = state.select(read)
            assert answer is None or found == answer
            assert state.select(path.from_json(read.to_json())) == found
        for wrong in (["top"], ["top", 1.5], ["ranked"], ["ranked", 1, 2, 3], ["quantile", "x"]):
            with pytest.raises(PathError):
                path.from_json([wrong])


def test_over_http_and_followed(tmp_path):
    """A client of the service asks along the same paths; a subscription follows what leads."""
    from starlette.testclient import TestClient

    from atoll.server import create_app

    module = atoll.Module("served")
    depot = module.depot("records", "g string, k long, v long", partition_by="g", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    board = mb.pstate("board", Map(str, Map(int, int, ranked="-value")))
    mb.source(depot).aggregate(board["g"]["k"], agg.last("v"))
    lead = path.key("a").subselect(path.top(2))
    with TopologyTestDriver(module, root=tmp_path, engine="inline") as driver:
        driver.depot("records").append([{"g": "a", "k": k, "v": k} for k in range(4)])
        driver.run_until_idle()
        with TestClient(create_app(driver.app), base_url="http://127.0.0.1:7410") as client:
            route = "/v1/modules/served/pstates/board/select"
            asked = {"path": [["key", "a"], ["top", 2]]}
            assert client.post(route, json=asked).json() == {"values": [[3, 3], [2, 2]]}
            wrong = client.post(route, json={"path": [["top", 2]]})
            assert wrong.status_code == 400
            assert "this map is not ranked" in wrong.json()["detail"]
        with driver.app.subscribe("board", lead) as changes:
            assert changes.next(0).new == [(3, 3), (2, 2)]
            driver.depot("records").append([{"g": "a", "k": 3, "v": -1}])
            driver.run_until_idle()
            assert changes.next(0).new == [(2, 2), (1, 1)]


def test_functions_are_tested_without_a_module():
    """State in memory knows ranks as well."""
    from atoll import testing

    def best(row, board):
        board[row.g][row.k] = row.v
        yield from ({"k": key} for key, _ in board[row.g].select(path.top(1)))

    state = testing.state(Map(str, Map(int, int, ranked="-value")), {"a": {1: 5, 2: 6}})
    assert testing.call(best, {"g": "a", "k": 1, "v": 9}, state, key="g") == [{"k": 1}]
    assert testing.call(best, {"g": "a", "k": 1, "v": 0}, state, key="g") == [{"k": 2}]
