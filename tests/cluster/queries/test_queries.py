"""Query functions: answers against plain Python, one moment, mistakes named, time limits."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import List, Map, Set, Struct, agg, path, start
from atoll.errors import (
    AtollError,
    DeclarationError,
    NotFoundError,
    QueryError,
    QueryTimeoutError,
    UsageError,
    UserCodeError,
)
from atoll.testing import TopologyTestDriver


def empty():
    """A module with no state to speak of."""
    module = atoll.Module("asked")
    numbers = module.depot("numbers", "n long", partitions=1)
    mb = module.microbatch("mb", vnode_count=4)
    total = mb.pstate("total", int, initial=0)
    mb.source(numbers, start_from=start.beginning()).aggregate(total, agg.sum("n"))
    return module


@pytest.fixture
def run(tmp_path):
    """Deploys a module and gives its app."""
    drivers = []

    def deploy(module):
        drivers.append(TopologyTestDriver(module, root=tmp_path, engine="inline"))
        return drivers[-1]

    yield deploy
    for each in drivers:
        each.close()


# Cases that Rama documents with their results -----------------------------------------------------


def test_rama_s_examples(run):
    """Aggregates of arguments, plain arithmetic, recursion, groups and limits."""
    module = empty()
    module.query("sum", vs=List(int)).explode("vs", "v").agg(total=agg.sum("v")).returns("total")
    colocated = module.query("colocated", n=int)
    colocated.map(lambda row: {"r": 3 * row.n + 1}, emits="r long").returns("r")

    fibonacci = module.query("fibonacci", n=int)
    small, large = fibonacci.branch(lambda row: row.n < 2)
    both = large.map(lambda row: {"one": row.n - 1, "two": row.n - 2}, emits="one long, two long")
    both = both.query("fibonacci", n="one", emits="a long")
    both = both.query("fibonacci", n="two", emits="b long")
    done = small.map(lambda row: {"f": 1}, emits="f long")
    done.union(both.map(lambda row: {"f": row.a + row.b}, emits="f long")).returns("f")

    pair = Struct(word=str, n=int)
    top = module.query("top", pairs=List(pair), count=int)
    pairs = top.explode("pairs", "pair").map(
        lambda row: {"word": row.pair["word"], "n": row.pair["n"], "count": row.count},
        emits="word string, n long, count long",
    )
    sums = pairs.group_by("word", "count").agg(n=agg.count(), total=agg.sum("n"))
    best = sums.group_by("count").agg(
        rows=agg.collect_list("word"), ns=agg.collect_list("n"), totals=agg.collect_list("total")
    )
    best.flat_map(
        lambda row: sorted(
            (
                {"word": word, "n": n, "total": total}
                for word, n, total in zip(row.rows, row.ns, row.totals, strict=True)
            ),
            key=lambda each: (-each["total"], each["word"]),
        )[: row["count"]],
        emits="word string, n long, total long",
    ).returns(rows="all")

    ask = run(module).app.query
    assert [ask("sum", vs=[1, 2, 3]), ask("sum", vs=[10, 15, 20, 25])] == [6, 70]
    assert ask("sum", vs=[]) is None
    assert [ask("colocated", n=1), ask("colocated", n=10)] == [4, 31]
    assert [ask("fibonacci", n=n) for n in range(10)] == [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    words = [("apple", 1), ("banana", 9), ("apple", 6), ("plum", 1), ("plum", 1), ("plum", 1)]
    assert ask("top", pairs=[{"word": w, "n": n} for w, n in words], count=2) == [
        {"word": "banana", "n": 1, "total": 9},
        {"word": "apple", "n": 2, "total": 7},
    ]


# Reach -------------------------------------------------------------------------------------------


def reach(vnodes, partitions):
    """How many people may have seen a page: the followers of those who shared it."""
    module = atoll.Module("reach")
    shares = module.depot("shares", "url string, user string", partitions=partitions)
    follows = module.depot("follows", "user string, by string", partitions=partitions)
    first = module.microbatch("shares", vnode_count=vnodes)
    sharers = first.pstate("sharers", Map(str, Set(str)))
    second = module.microbatch("follows", vnode_count=vnodes)
    followers = second.pstate("followers", Map(str, Set(str)))
    counts = second.pstate("counts", Map(str, int))
    first.source(shares, start_from=start.beginning()).aggregate(
        sharers["url"], agg.collect_set("user")
    )
    followed = second.source(follows, start_from=start.beginning())
    followed.aggregate(followers["user"], agg.collect_set("by"))
    followed.aggregate(counts["user"], agg.count())

    asked = module.query("reach", url=str)
    users = asked.select_from(sharers, lambda row: path.key(row.url).all(), emits="user string")
    people = users.select_from(
        followers, lambda row: path.key(row.user).all(), emits="person string"
    )
    people.distinct("person").agg(reach=agg.count()).returns("reach")
    known = module.query("known", users=List(str))
    looked = known.explode("users", "user").lookup(counts["user"], "count")
    looked.returns(rows="all")
    whole = module.query("whole")
    whole.select_from(followers, lambda row: path.all(), emits="user string, by array<string>").map(
        lambda row: {"user": row.user, "n": len(row.by)}, emits="user string, n long"
    ).returns(rows="all")
    return module


@pytest.mark.parametrize(("vnodes", "partitions"), [(1, 1), (8, 3), (64, 2)])
def test_reach_is_what_plain_python_finds(run, vnodes, partitions):
    """Over state of two topologies, in random cuts, with failing attempts and a reschedule."""
    dice = random.Random(vnodes)
    driver = run(reach(vnodes, partitions))
    sharers, followers, counts = defaultdict(set), defaultdict(set), Counter()
    for turn in range(5):
        shares = [(f"u{dice.randrange(4)}", f"p{dice.randrange(9)}") for _ in range(6)]
        follows = [(f"p{dice.randrange(9)}", f"p{dice.randrange(30)}") for _ in range(20)]
        for url, user in shares:
            sharers[url].add(user)
        for user, by in follows:
            followers[user].add(by)
            counts[user] += 1
        driver.depot("shares").append([{"url": u, "user": p} for u, p in shares])
        driver.depot("follows").append([{"user": u, "by": p} for u, p in follows])
        if turn == 2:
            driver.fail_next_attempt("shares", after_work=True)
        if turn == 3:
            driver.app.cluster.set_parallelism("follows", "fixed(1)")
        driver.run()
        ask = driver.app.query
        for url in ["u0", "u1", "u2", "u3", "none"]:
            expected = len(set().union(*(followers[user] for user in sharers[url])))
            assert ask("reach", url=url) == expected
        users = dice.sample([f"p{n}" for n in range(12)], 7)
        assert ask("known", users=users) == [
            {"users": users, "user": user, "count": counts[user] or None} for user in users
        ]
        present = [user for user in sorted(followers) if followers[user]]
        assert ask("whole") == [{"user": user, "n": len(followers[user])} for user in present]


def test_joins_unions_and_columns(run):
    """Those steps that a query runs itself, against loops over lists."""
    dice = random.Random(3)
    pair = Struct(k=int | None, v=int)
    module = empty()
    ways = ("inner", "left", "right", "full", "semi", "anti")
    for how in ways:
        asked = module.query(how, left=List(pair), right=List(pair))
        sides = [
            asked.explode(name, "each").map(
                lambda row, column=column: {"k": row.each["k"], column: row.each["v"]},
                emits=f"k long, {column} long",
            )
            for name, column in (("left", "a"), ("right", "b"))
        ]
        sides[0].join(sides[1], on="k", how=how).returns(rows="all")
    named = module.query("columns", vs=List(int))
    rows = named.explode("vs", "v").with_columns(one="1", text="'its'", v2="v")
    rows.select("v", "v2 AS again", "one", "text").distinct().returns(rows="all")
    looped = module.query("halves", n=int)
    looped.loop(
        lambda rows: rows.map(lambda row: {"n": row.n // 2}, emits="n long"),
        until=lambda row: row.n % 2 == 1,
        at_most=5,
    ).returns("n")
    ask = run(module).app.query
    for _ in range(10):
        left, right = (
            [
                {"k": dice.choice([None, 1, 2, 3]), "v": dice.randrange(9)}
                for _ in range(dice.randrange(6))
            ]
            for _ in range(2)
        )
        pairs = [(a, b) for a in left for b in right if a["k"] is not None and a["k"] == b["k"]]
        inner = [{"k": a["k"], "a": a["v"], "b": b["v"]} for a, b in pairs]
        alone = [a for a in left if not any(a["k"] == b["k"] and a["k"] is not None for b in right)]
        others = [
            b for b in right if not any(a["k"] == b["k"] and b["k"] is not None for a in left)
        ]
        lefts = [{"k": a["k"], "a": a["v"], "b": None} for a in alone]
        rights = [{"k": b["k"], "a": None, "b": b["v"]} for b in others]
        expected = {
            "inner": inner,
            "left": inner + lefts,
            "right": inner + rights,
            "full": inner + lefts + rights,
            "semi": [{"k": a["k"], "a": a["v"]} for a in left if a not in alone],
            "anti": [{"k": a["k"], "a": a["v"]} for a in alone],
        }
        for how in ways:
            answer = ask(how, left=left, right=right)
            assert sorted(answer, key=repr) == sorted(expected[how], key=repr), how
    assert ask("columns", vs=[3, 1, 3]) == [
        {"v": 3, "again": 3, "one": 1, "text": "its"},
        {"v": 1, "again": 1, "one": 1, "text": "its"},
    ]
    assert ask("halves", n=40) == 5
    with pytest.raises(UserCodeError, match="left after 5 rounds"):
        ask("halves", n=64)


# One moment --------------------------------------------------------------------------------------


def test_all_reads_of_a_call_see_one_commit(tmp_path):
    """While microbatches go on: two PStates that change together are never seen apart."""
    module = atoll.Module("moments")
    numbers = module.depot("numbers", "k long", partition_by="k", partitions=2)
    mb = module.microbatch("mb", vnode_count=8)
    counts = mb.pstate("counts", Map(int, int))
    total = mb.pstate("total", int, initial=0)
    source = mb.source(numbers, start_from=start.beginning())
    source.aggregate(counts["k"], agg.count())
    source.aggregate(total, agg.count())
    both = module.query("both")
    both = both.lookup(total, "before")
    values = both.select_from(counts, lambda row: path.map_vals(), emits="n long")
    summed = values.group_by("before").agg(counted=agg.sum("n"))
    summed.lookup(total, "after").returns()
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(module)
        app.depot("numbers").append([{"k": 0}])
        app.topology("mb").wait_processed(1)
        done, seen, answered = threading.Event(), {0}, threading.Condition()

        def feed():
            try:
                for turn in range(1, 40):
                    app.depot("numbers").append([{"k": k} for k in range(turn)])
                    if turn % 10 == 0:  # so that it is asked at several commits, however slow
                        count = 1 + sum(range(turn + 1))
                        app.topology("mb").wait_processed(count)
                        with answered:
                            assert answered.wait_for(lambda count=count: max(seen) >= count, 120)
            finally:
                done.set()

        feeder = threading.Thread(target=feed)
        feeder.start()
        while not done.is_set() or app.topology("mb").status()["lag"]["numbers"] != [0, 0]:
            found = app.query("both", timeout_seconds=30)
            assert found["before"] == found["counted"] == found["after"]
            with answered:
                seen.add(found["before"])
                answered.notify_all()
        feeder.join()
        assert app.query("both")["counted"] == 1 + sum(range(1, 40))


# Asked by topologies ------------------------------------------------------------------------------


def asking(vnodes, partitions):
    """Each record with how often its key and its neighbours came before its microbatch."""
    module = atoll.Module("asking")
    depot = module.depot("keys", "k long", partition_by="k", partitions=partitions)
    mb = module.microbatch("mb", vnode_count=vnodes)
    counts = mb.pstate("counts", Map(int, int))
    seen = mb.pstate("seen", Map(int, List(int)))
    near = mb.pstate("near", Map(int, int))

    before = module.query("before", k=int)
    before.lookup(counts["k"], "n").map(lambda row: {"n": row.n or 0}, emits="n long").returns("n")
    around = module.query("around", k=int)
    around.flat_map(
        lambda row: [{"other": row.k - 1}, {"other": row.k + 1}], emits="other long"
    ).query("before", k="other", emits="n long").where(lambda row: row.n).returns(rows="all")

    source = mb.source(depot, start_from=start.beginning())
    source.aggregate(counts["k"], agg.count())
    source.query("before", k="k", emits="n long").map(
        lambda row: {"k": row.k, "n": row.n}, emits="k long, n long"
    ).aggregate(seen["k"], agg.collect_list("n"))
    source.query("around", k="k", emits="other long, n long").aggregate(near["other"], agg.sum("n"))
    return module


def _ask_in_cuts(driver, dice, cuts, disturbed):
    """Append and run in cuts; what plain Python makes of the same."""
    counts, seen, near = Counter(), defaultdict(list), Counter()
    for turn in range(cuts):
        keys = [dice.randrange(6) for _ in range(dice.choice([1, 4, 9]))]
        driver.depot("keys").append([{"k": k} for k in keys])
        disturbed(turn)
        for k in keys:
            seen[k].append(counts[k])
            for other in (k - 1, k + 1):
                near[other] += counts[other]
        counts.update(keys)
    return seen, {k: n for k, n in near.items() if n}


@pytest.mark.parametrize(("vnodes", "partitions", "seed"), [(1, 1, 1), (8, 3, 2), (64, 2, 3)])
def test_a_topology_gets_the_same_answer_in_every_attempt(run, vnodes, partitions, seed):
    """That of the commit before, whatever the microbatch and its failed attempts wrote."""
    dice = random.Random(seed)
    driver = run(asking(vnodes, partitions))

    def disturbed(turn):
        if turn % 3 == 1:
            driver.fail_next_attempt(times=2, after_work=True)
        if turn == 5:
            driver.app.cluster.set_parallelism("mb", f"fixed({1 + vnodes % 2})")
        if turn == 6:
            driver.step()
            driver.step()
            driver.restart()
        driver.microbatch()

    seen, near = _ask_in_cuts(driver, dice, 9, disturbed)
    assert driver.pstate("seen").get() == seen
    assert {k: n for k, n in driver.pstate("near").get().items() if n} == near


@pytest.mark.slow
def test_a_topology_on_spark_asks_too(tmp_path):
    """The query travels to the workers with the program."""
    dice = random.Random(4)
    with atoll.LocalCluster(tmp_path) as cluster:
        app = cluster.deploy(asking(8, 2))

        def disturbed(turn):
            app.topology("mb").wait_processed(sum(app.depot("keys").end_offsets()), 300)

        seen, near = _ask_in_cuts(app, dice, 3, disturbed)
        assert app.pstate("seen").get() == seen
        assert {k: n for k, n in app.pstate("near").get().items() if n} == near


# Mistakes ----------------------------------------------------------------------------------------


def test_wrong_arguments_are_named(run):
    """Missing, unknown, of another type; from outside, texts stand for other types."""
    module = empty()
    asked = module.query("asked", at=int, names=List(str), where=Struct(x=float))
    asked.select("at").returns("at")
    app = run(module).app
    good = {"at": 1, "names": ["a"], "where": {"x": 0.5}}
    assert app.query("asked", **good) == 1
    for wrong, match in (
        ({"at": "x"}, "argument 'at'"),
        ({"at": 1 << 70}, "argument 'at'"),
        ({"at": None}, "argument 'at'"),
        ({"names": "a"}, "argument 'names'"),
        ({"names": [1]}, "argument 'names'"),
        ({"where": {"y": 1.0}}, "argument 'where'"),
        ({"more": 1}, "no parameter 'more'"),
    ):
        with pytest.raises(UsageError, match=match):
            app.query("asked", **{**good, **wrong})
    with pytest.raises(UsageError, match="needs the argument 'names'"):
        app.query("asked", at=1)
    with pytest.raises(NotFoundError, match="no query 'other'"):
        app.query("other")
    with pytest.raises(UsageError, match="cannot answer in 0"):
        app.query("asked", timeout_seconds=0, **good)
    assert app.queries.names() == ["asked"]


def test_expressions_that_are_certified_are_computed(run):
    """As in a topology; a row on which one fails is the asker's to hear of."""
    module = empty()
    asked = module.query("asked", at=int, name=str)
    wide = asked.with_columns(twice="at * 2").where("name LIKE 'a%'")
    wide.select("concat(name, '!') AS name", "100 div twice AS share").returns(rows="all")
    app = run(module).app
    assert app.query("asked", at=5, name="ann") == [{"name": "ann!", "share": 10}]
    assert app.query("asked", at=5, name="bob") == []
    with pytest.raises(AtollError, match="100 div twice AS share fails where twice=0"):
        app.query("asked", at=0, name="ann")


def _declared(build):
    module = atoll.Module("wrong")
    depot = module.depot("numbers", "n long", partitions=1)
    mb = module.microbatch("mb")
    states = {
        "counts": mb.pstate("counts", Map(int, int)),
        "hidden": mb.pstate("hidden", Map(int, int), private=True),
    }
    source = mb.source(depot)
    source.aggregate(states["counts"]["n"], agg.count())
    source.aggregate(states["hidden"]["n"], agg.count())
    build(module.query("q", n=int), source, states)
    return module


OWN = {
    "is no step of a query": lambda q, s, p: q.aggregate(p["counts"]["n"], agg.count()),
    "transform is no step": lambda q, s, p: q.transform(lambda frame: frame),
    "private to topology": lambda q, s, p: q.lookup(p["hidden"]["n"], "c"),
    "step of queries": lambda q, s, p: s.select_from(p["counts"], path.all, emits="c long"),
    "returns is a step": lambda q, s, p: s.returns("n"),
    "takes a stream of another": lambda q, s, p: q.union(s),
    "returns twice": lambda q, s, p: (q.returns("n"), q.returns("n")),
    "rows='some'": lambda q, s, p: q.returns(rows="some"),
}
LATER = {
    "returns nothing": lambda q, s, p: q,
    "returns the column 'm'": lambda q, s, p: q.returns("m"),
    "uses the column 'm'": lambda q, s, p: q.lookup(p["counts"]["m"], "c").returns(),
    "only Spark can": lambda q, s, p: q.select("cbrt(n) AS m").returns(),
    "two columns of one name": lambda q, s, p: q.select_from(
        p["counts"], lambda row: path.all(), emits="n long"
    ).returns(),
    "join would emit two columns of one name: v": lambda q, s, p: (
        q.with_columns(v="1").join(q.with_columns(v="2"), on="n").returns()
    ),
    "no query 'other'": lambda q, s, p: q.query("other", n="n", emits="a long").returns(),
    "takes n, not m": lambda q, s, p: q.query("q", m="n", emits="a long").returns("n"),
    "needs an array, or a map": lambda q, s, p: q.explode("n").returns(),
}


@pytest.mark.parametrize("match", OWN)
def test_mistakes_are_found_on_their_own_line(match):
    """While the module is declared."""
    with pytest.raises(DeclarationError, match=match) as caught:
        _declared(OWN[match])
    assert "test_queries.py" in caught.value.context["declared"]


@pytest.mark.parametrize("match", LATER)
def test_mistakes_are_found_before_anything_runs(tmp_path, match):
    """At the deployment, with the line."""
    module = _declared(LATER[match])
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        with pytest.raises(DeclarationError, match=match) as caught:
            cluster.deploy(module)
        assert not cluster.apps
    assert "test_queries.py" in caught.value.context["declared"]


def test_names_and_parameters_that_cannot_be():
    """Twice the same name; a parameter that is stored element by element."""
    module = atoll.Module("wrong")
    module.query("q", n=int)
    with pytest.raises(DeclarationError, match="declared twice"):
        module.query("q", n=int)
    with pytest.raises(DeclarationError, match="cannot be a map"):
        module.query("r", n=Map(str, int))


def test_answers_that_cannot_be_given(run):
    """Several rows where one is returned, functions that raise, paths that are none, no end."""
    module = empty()
    module.query("several", vs=List(int)).explode("vs", "v").returns("v")
    module.query("raises", n=int).map(lambda row: {"m": 1 // row.n}, emits="m long").returns("m")
    again = module.query("again", n=int)
    again.query("again", n="n", emits="m long").returns("m")
    app = run(module).app
    assert app.query("several", vs=[5]) == 5
    assert app.query("several", vs=[]) is None
    with pytest.raises(QueryError, match="came to 2 rows"):
        app.query("several", vs=[1, 2])
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        app.query("raises", n=0)
    assert "test_queries.py" in caught.value.context["declared"]
    with pytest.raises(QueryError, match="50 deep"):
        app.query("again", n=1)


def test_time_limits_hold_and_threads_end(run):
    """Whoever asks waits no longer; the steps stop at their next look at the time."""
    module = empty()
    began, go_on, went_on = threading.Event(), threading.Event(), threading.Event()

    def wait(row):
        began.set()
        go_on.wait(120)
        went_on.set()
        return {"n": row.n}

    slow = module.query("slow", n=int).map(wait, emits="n long")
    slow.map(lambda row: pytest.fail("it goes on"), emits="n long").returns("n")
    app = run(module).app
    seconds = 0.1
    while not began.is_set():  # a busy machine may need longer to come to the step
        seconds *= 2
        with pytest.raises(QueryTimeoutError, match="did not answer in"):
            app.query("slow", n=1, timeout_seconds=seconds)
    assert not went_on.is_set()  # whoever asked has the answer, and the step still waits
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "atoll-query-slow":
            thread.join(30)
            assert not thread.is_alive()
