"""Queries that topologies ask over what other topologies of the module write.

Each is compared with plain Python that knows what the other topology had committed when the
microbatch was planned.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict

import pytest

import atoll
from atoll import List, Map, Struct, agg, path, start
from atoll.errors import UsageError
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
TIDY = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 5}
"""So that commits go soon when nothing keeps them."""


def by_length(item):
    """A vnode of one's own choice."""
    return len(item)


def shop(*, vnodes=(8, 4), partitions=2, hook=None, asks=True, doubled=False):
    """``keep`` keeps prices; ``count`` asks what they were, and keeps what it was told."""
    module = atoll.Module("shop")
    priced = module.depot(
        "priced", "item string, price long", partition_by="item", partitions=partitions
    )
    sales = module.depot("sales", "n long, item string", partition_by="item", partitions=partitions)
    count = module.microbatch("count", vnode_count=vnodes[1])  # before what it reads
    told = count.pstate("told", Map(int, List(Struct(price=int, known=int, sold=int))))
    sold = count.pstate("sold", Map(str, int))
    keep = module.microbatch("keep", vnode_count=vnodes[0], options=TIDY)
    prices = keep.pstate("prices", Map(str, int), partition_by=by_length)
    if doubled:
        prices.migrated("doubled", lambda value: 2 * value)
    keep.source(priced, start_from=FIRST).aggregate(prices["item"], agg.last("price"))

    module.query("price", item=str).lookup(prices["item"], "price").returns("price")
    known = module.query("known").select_from(prices, lambda row: path.keys(), emits="key string")
    known.agg(known=agg.count()).returns("known")
    asked = module.query("now", item=str).query("price", item="item", emits="price long")
    asked = asked.query("known", emits="known long").lookup(sold["item"], "sold")
    asked.map(
        lambda row: {"price": row.price, "known": row.known, "sold": row.sold or 0},
        emits="price long, known long, sold long",
    ).returns()

    rows = count.source(sales, start_from=FIRST)
    rows.aggregate(sold["item"], agg.count())
    if asks:
        rows = rows.query("now", item="item", emits="price long, known long, sold long")
    else:
        rows = rows.map(
            lambda row: {"n": row.n, "price": 0, "known": 0, "sold": 0},
            emits="n long, price long, known long, sold long",
        )

    def noted(row):
        if hook is not None:
            hook(row)
        return {"n": row.n, "told": {name: row[name] for name in ("price", "known", "sold")}}

    rows.map(noted, emits="n long, told struct<price: long, known: long, sold: long>").aggregate(
        told["n"], agg.collect_list("told")
    )
    return module


def price(driver, **prices):
    """Set prices in one microbatch of ``keep``."""
    driver.depot("priced").append([{"item": i, "price": p} for i, p in prices.items()])
    driver.microbatch("keep")


def told(driver):
    """What ``count`` was told of each sale, the only one of its number."""
    found = driver.pstate("told").get()
    assert all(len(each) == 1 for each in found.values())
    return {n: tuple(each.values()) for n, (each,) in found.items()}


def pins(root):
    """The pins that lie under a root."""
    return sorted(file.name for file in root.glob("*/*/pins/*"))


@pytest.mark.parametrize("seed", range(5))
def test_every_attempt_is_told_what_was_when_it_was_planned(tmp_path, seed):
    """Random cuts, failed attempts, reschedules of either side and restarts in between."""
    chance = random.Random(seed)
    items = ["a", "b", "cc", "dd", "eee"]
    module = shop(
        vnodes=(chance.choice([1, 3, 16]), chance.choice([1, 2, 32])),
        partitions=chance.choice([1, 3]),
    )
    known, sold, expected, number = {}, Counter(), {}, 0
    with TopologyTestDriver(module, root=tmp_path, engine="inline", parallelism=3) as driver:

        def reprice():
            for _ in range(chance.randrange(1, 5)):
                item = chance.choice(items)
                known[item] = chance.randrange(1000)
                price(driver, **{item: known[item]})

        for _ in range(6):
            reprice()
            batch = [chance.choice([*items, "never"]) for _ in range(chance.choice([1, 5, 20]))]
            driver.depot("sales").append(
                [{"n": number + at, "item": item} for at, item in enumerate(batch)]
            )
            for item in batch:
                expected[number] = (known.get(item), len(known), sold[item])
                number += 1
            sold.update(batch)
            assert driver.step("count") == "prime"
            for _ in range(chance.randrange(4)):
                reprice()
                match chance.randrange(4):
                    case 0:
                        driver.fail_next_attempt("count", after_work=True)
                        assert driver.step("count") == "failed"
                    case 1:
                        driver.app.cluster.set_parallelism("keep", chance.choice(["1", "2", "3"]))
                    case 2:
                        driver.restart()
            reprice()
            if chance.random() < 0.3:  # the rest of the microbatch runs on it
                driver.app.cluster.set_parallelism("count", chance.choice(["1", "3"]))
            driver.run_until_idle()
            assert pins(tmp_path) == []
        assert told(driver) == expected
    assert check_root(tmp_path).findings == []


def test_what_a_retry_reads_is_kept_and_goes_afterwards(tmp_path):
    """The price changes many times between two attempts; then nothing keeps the log any more."""
    failing = []

    def fail_once(_):
        if not failing:
            failing.append(1)
            for value in range(2, 60):
                price(driver, a=value)
            driver.app.cluster.set_parallelism("keep", "1")
            price(driver, a=60, b=1)
            raise ValueError("once")

    module = shop(hook=fail_once)
    with TopologyTestDriver(module, root=tmp_path, engine="inline", parallelism=2) as driver:
        price(driver, a=1)
        driver.depot("sales").append([{"n": 0, "item": "a"}])
        driver.microbatch("count")
        assert failing
        assert told(driver) == {0: (1, 1, 0)}
        commits = tmp_path / "shop" / "keep" / "commits"
        assert len(list(commits.iterdir())) > 55
        for value in range(61, 80):
            price(driver, a=value)
        assert len(list(commits.iterdir())) < 30
        driver.depot("sales").append([{"n": 1, "item": "a"}])
        driver.microbatch("count")
        assert told(driver)[1] == (79, 2, 1)


def test_a_topology_that_has_not_committed_is_empty_and_stays_so(tmp_path):
    """What is pinned may be the progress before the first commit."""
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        driver.depot("sales").append([{"n": 0, "item": "a"}])
        assert driver.step("count") == "prime"
        for value in range(1, 60):
            price(driver, a=value)
        driver.fail_next_attempt("count", after_work=True)
        driver.microbatch("count")
        assert told(driver) == {0: (None, 0, 0)}


def test_local_stores_that_are_gone_change_no_answer(tmp_path):
    """They are built anew as of the pinned commit, though the log has gone far beyond it."""
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        for value in range(1, 9):
            price(driver, a=value, **{f"i{value}": value})
        driver.depot("sales").append([{"n": 0, "item": "i7"}, {"n": 1, "item": "a"}])
        driver.step("count")
        for value in range(9, 40):
            price(driver, a=value, i7=0)
        driver.restart()
        for file in (tmp_path / "local").glob("**/prices/*/*"):
            file.unlink()
        driver.microbatch("count")
        assert told(driver) == {0: (7, 9, 0), 1: (8, 9, 0)}


def test_a_rollback_does_not_abandon_what_is_being_read(tmp_path):
    """It is refused until the microbatch has committed, or its topology went back."""
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        for value in range(1, 4):
            price(driver, a=value)
        driver.depot("sales").append([{"n": 0, "item": "a"}])
        driver.microbatch("count")
        driver.depot("sales").append([{"n": 1, "item": "a"}])
        driver.step("count")
        with pytest.raises(UsageError, match=r"shop\.count reads what would be abandoned"):
            driver.app.topology("keep").rollback(2)
        driver.app.topology("count").rollback(1)
        assert pins(tmp_path) == []
        driver.app.topology("keep").rollback(2)
        driver.app.topology("count").resume()
        driver.run_until_idle()
        assert told(driver) == {0: (3, 1, 0), 1: (2, 1, 1)}
        driver.app.topology("keep").rollback(1)
        assert driver.pstate("prices").get() == {"a": 1}


def test_values_that_are_migrated_are_shown_as_they_are_now(tmp_path):
    """Before the migration has reached them, and after."""
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        price(driver, a=1, bb=5)
        driver.update(shop(doubled=True))
        driver.depot("sales").append([{"n": 0, "item": "a"}, {"n": 1, "item": "bb"}])
        driver.microbatch("count")
        driver.run_until_idle()
        assert driver.app.topology("keep").status()["migrations"] == {}
        driver.depot("sales").append([{"n": 2, "item": "a"}, {"n": 3, "item": "bb"}])
        driver.microbatch("count")
        assert {n: each[0] for n, each in told(driver).items()} == {0: 2, 1: 10, 2: 2, 3: 10}


def test_a_version_that_asks_no_more_leaves_no_pin(tmp_path):
    """The life before died in the middle of a microbatch that did."""
    with TopologyTestDriver(shop(), root=tmp_path, engine="inline") as driver:
        price(driver, a=1)
        driver.depot("sales").append([{"n": 0, "item": "a"}])
        driver.step("count")
        driver.cluster.kill()
    assert pins(tmp_path)
    with TopologyTestDriver(shop(asks=False), root=tmp_path, engine="inline") as driver:
        assert pins(tmp_path) == []
        driver.run_until_idle()
        assert told(driver) == {0: (0, 0, 0)}


def test_a_version_that_asks_for_the_first_time_goes_on_from_an_older_plan(tmp_path):
    """Which names no commit to read; one is chosen, and is the same for all its attempts."""
    with TopologyTestDriver(shop(asks=False), root=tmp_path, engine="inline") as driver:
        price(driver, a=1)
        driver.depot("sales").append([{"n": 0, "item": "a"}])
        driver.step("count")
        driver.cluster.kill()
    failing = []

    def fail_once(_):
        if not failing:
            failing.append(1)
            for value in range(2, 30):
                price(driver, a=value)
            raise ValueError("once")

    with TopologyTestDriver(shop(hook=fail_once), root=tmp_path, engine="inline") as driver:
        driver.microbatch("count")
        assert told(driver) == {0: (1, 1, 0)}
        assert pins(tmp_path) == []


def circle():
    """Two topologies, each of which asks what the other had."""
    module = atoll.Module("circle")
    sources, states = {}, {}
    for name in ("ping", "pong"):
        balls = module.depot(f"{name}s", "n long", partitions=1)
        mb = module.microbatch(name, vnode_count=3)
        states[name] = mb.pstate(f"{name}_counts", Map(int, int))
        sources[name] = (mb, mb.source(balls, start_from=FIRST))
        sources[name][1].aggregate(states[name]["n"], agg.count())
        module.query(name, n=int).lookup(states[name]["n"], "k").returns("k")
    for name, other in (("ping", "pong"), ("pong", "ping")):
        mb, rows = sources[name]
        far = mb.pstate(f"{name}_far", Map(int, List(int)))
        asked = rows.query(other, n="n", emits="k long")
        asked.map(lambda row: {"n": row.n, "k": row.k or 0}, emits="n long, k long").aggregate(
            far["n"], agg.collect_list("k")
        )
    return module


@pytest.mark.parametrize("seed", range(3))
def test_two_topologies_may_ask_over_each_other(tmp_path, seed):
    """In any interleaving of their steps."""
    chance = random.Random(seed)
    counts = {"ping": Counter(), "pong": Counter()}
    appended = {"ping": [], "pong": []}
    planned: dict[str, list[int] | None] = {"ping": None, "pong": None}
    far = {"ping": defaultdict(list), "pong": defaultdict(list)}
    with TopologyTestDriver(circle(), root=tmp_path, engine="inline") as driver:
        for _ in range(150):
            name, other = chance.sample(["ping", "pong"], 2)
            if chance.random() < 0.3:
                balls = [chance.randrange(3) for _ in range(chance.randrange(1, 4))]
                driver.depot(f"{name}s").append([{"n": n} for n in balls])
                appended[name] += balls
            if planned[name] and chance.random() < 0.1:
                driver.fail_next_attempt(name, after_work=True)
            step = driver.step(name)
            if step == "prime":
                planned[name], appended[name] = appended[name], []
                for n in planned[name]:
                    far[name][n].append(counts[other][n])
            elif step == "commit":
                counts[name].update(planned[name])
                planned[name] = None
        driver.run_until_idle()
        for name in ("ping", "pong"):
            for n in appended[name]:  # planned at the end, when all of the other may be there
                far[name][n].append(None)
            found = driver.pstate(f"{name}_far").get()
            for n, each in far[name].items():
                assert len(found[n]) == len(each)
                assert all(b in (None, a) for a, b in zip(found[n], each, strict=True))


def test_what_is_read_of_a_running_topology_is_one_commit_of_it(tmp_path):
    """Both run at once: two PStates that change together are never seen apart."""
    module = atoll.Module("moments")
    numbers = module.depot("numbers", "k long", partition_by="k", partitions=2)
    asks = module.depot("asks", "n long", partitions=1)
    one = module.microbatch("one", vnode_count=8)
    counts = one.pstate("counts", Map(int, int))
    total = one.pstate("total", int, initial=0)
    source = one.source(numbers, start_from=FIRST)
    source.aggregate(counts["k"], agg.count())
    source.aggregate(total, agg.count())
    both = module.query("both").lookup(total, "total")
    both = both.select_from(counts, lambda row: path.map_vals(), emits="n long")
    both.group_by("total").agg(counted=agg.sum("n")).returns()
    two = module.microbatch("two", vnode_count=2)
    seen = two.pstate("seen", Map(int, Struct(total=int, counted=int)))
    asked = two.source(asks, start_from=FIRST).query("both", emits="total long, counted long")
    asked.aggregate(seen["n"], total=agg.last("total"), counted=agg.last("counted"))
    with atoll.LocalCluster(tmp_path, engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(module)
        app.depot("numbers").append([{"k": 0}])
        app.topology("one").wait_processed(1)

        def feed():
            for turn in range(1, 30):
                app.depot("numbers").append([{"k": k} for k in range(turn)])

        feeder = threading.Thread(target=feed)
        feeder.start()
        for n in range(25):
            app.depot("asks").append([{"n": n}])
            app.topology("two").wait_processed(n + 1, 120)
        feeder.join()
        app.topology("one").wait_processed(1 + sum(range(1, 30)), 120)
        app.depot("asks").append([{"n": 25}])
        app.topology("two").wait_processed(26, 120)
        found = app.pstate("seen").get()
    assert len(found) == 26
    assert all(each["total"] == each["counted"] for each in found.values())
    assert found[25]["total"] == 1 + sum(range(1, 30))
    assert [found[n]["total"] for n in range(26)] == sorted(e["total"] for e in found.values())


@pytest.mark.slow
def test_on_spark_too(tmp_path):
    """The pins travel to the workers with the job."""
    with atoll.LocalCluster(tmp_path) as cluster:
        app = cluster.deploy(shop(vnodes=(8, 4)))
        expected, sold = {}, Counter()
        for turn in range(3):
            app.depot("priced").append([{"item": "a", "price": turn}, {"item": f"i{turn}"}])
            app.topology("keep").wait_processed(2 * (turn + 1), 300)
            app.cluster.set_parallelism("keep", str(1 + turn % 2))
            for item in ("a", "i0", "never"):
                n = len(expected)
                app.depot("sales").append([{"n": n, "item": item}])
                app.topology("count").wait_processed(n + 1, 300)
                expected[n] = (turn if item == "a" else None, turn + 2, sold[item])
                sold[item] += 1
        found = app.pstate("told").get()
        assert {n: tuple(each.values()) for n, (each,) in found.items()} == expected
