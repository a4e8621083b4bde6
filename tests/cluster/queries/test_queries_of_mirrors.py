"""Queries over PStates of other modules: asked from outside, and by topologies."""

from __future__ import annotations

import random
import threading

import pytest

import atoll
from atoll import List, Map, agg, path, start
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()


def shop(*, doubled=False, vnodes=8):
    """Keeps the last price of each item, and how many were set."""
    module = atoll.Module("shop")
    priced = module.depot("priced", "item string, price long", partition_by="item")
    options = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 5}
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    prices = mb.pstate("prices", Map(str, int))
    total = mb.pstate("total", int, initial=0)
    if doubled:
        prices.migrated("doubled", lambda value: 2 * value)
    source = mb.source(priced, start_from=FIRST)
    source.aggregate(prices["item"], agg.last("price"))
    source.aggregate(total, agg.sum("price"))
    return module


def till(*, vnodes=4):
    """Has prices of its own under the same name; asks for those of the shop."""
    module = atoll.Module("till")
    sales = module.depot("sales", "n long, item string", partition_by="item")
    theirs = module.mirror_pstate("shop", "prices", Map(str, int))
    total = module.mirror_pstate("shop", "total", int)
    mb = module.microbatch("mb", vnode_count=vnodes)
    told = mb.pstate("told", Map(int, List(int)))
    own = mb.pstate("prices", Map(str, int))

    asked = module.query("price", item=str).lookup(theirs["item"], "theirs")
    asked.lookup(own["item"], "own").returns()
    summed = module.query("sum").lookup(total, "total")
    summed = summed.select_from(theirs, lambda row: path.map_vals(), emits="price long")
    summed.group_by("total").agg(summed=agg.sum("price")).returns()

    source = mb.source(sales, start_from=FIRST)
    source.aggregate(own["item"], agg.count())
    rows = source.query("price", item="item", emits="theirs long, own long").flat_map(
        lambda row: [{"n": row.n, "v": v or 0} for v in (row.theirs, row.own)],
        emits="n long, v long",
    )
    rows.aggregate(told["n"], agg.collect_list("v"))
    return module


def price(driver, **prices):
    """Set prices in one microbatch."""
    driver.depot("priced").append([{"item": i, "price": p} for i, p in prices.items()])
    driver.run()


@pytest.mark.parametrize("seed", range(3))
def test_answers_inside_and_outside(tmp_path, seed):
    """Inside as the plan says, through failed attempts and restarts; outside at the last commit."""
    chance = random.Random(seed)
    expected, known, sold = {}, {}, {}
    shape = chance.choice([1, 5, 16]), chance.choice([1, 3, 32])
    with (
        TopologyTestDriver(shop(vnodes=shape[0]), root=tmp_path, parallelism=2) as first,
        TopologyTestDriver(till(vnodes=shape[1]), root=tmp_path, parallelism=3) as second,
    ):

        def reprice():
            for _ in range(chance.randrange(12)):
                item = chance.choice("abcd")
                known[item] = chance.randrange(1, 99)
                price(first, **{item: known[item]})

        for turn in range(6):
            reprice()
            batch = chance.sample("abcde", chance.randrange(1, 5))
            second.depot("sales").append(
                [{"n": 10 * turn + at, "item": item} for at, item in enumerate(batch)]
            )
            assert second.step() == "prime"
            for at, item in enumerate(batch):
                expected[10 * turn + at] = [known.get(item, 0), sold.get(item, 0)]
            reprice()
            if chance.random() < 0.7:
                second.fail_next_attempt(after_work=True)
            if chance.random() < 0.4:
                second.restart()
            if chance.random() < 0.4:
                first.app.cluster.set_parallelism("mb", chance.choice(["1", "2"]))
            second.run_until_idle()
            for item in batch:
                sold[item] = sold.get(item, 0) + 1
            for item in "abcde":
                found = second.app.query("price", item=item)
                assert found == {
                    "item": item,
                    "theirs": known.get(item),
                    "own": sold.get(item),
                }
        assert second.pstate("told").get() == expected
        assert not list(tmp_path.glob("shop/mb/pins/*"))


def test_a_migration_of_the_other_module_is_seen_at_once(tmp_path):
    """Without a deployment of the reader, before anything is rewritten and after."""
    with (
        TopologyTestDriver(shop(), root=tmp_path) as first,
        TopologyTestDriver(till(), root=tmp_path) as second,
    ):
        price(first, a=1, b=5)
        assert second.app.query("price", item="b")["theirs"] == 5
        first.update(shop(doubled=True))
        assert second.app.query("price", item="b")["theirs"] == 10
        second.depot("sales").append([{"n": 0, "item": "b"}])
        second.run_until_idle()
        first.run_until_idle()
        assert first.status()["migrations"] == {}
        second.depot("sales").append([{"n": 1, "item": "b"}])
        second.run_until_idle()
        assert second.app.query("price", item="b")["theirs"] == 10
        assert second.pstate("told").get() == {0: [10, 0], 1: [10, 1]}


def test_all_reads_of_a_call_see_one_commit_of_the_other_module(tmp_path):
    """While its microbatches go on, also when several ask at once."""
    with atoll.LocalCluster(tmp_path, engine="inline") as cluster:
        there = cluster.deploy(shop())
        app = cluster.deploy(till())

        wrong, seen, answered = [], {0}, threading.Condition()

        def feed():
            for turn in range(40):  # each item once: the sum of the prices is the total
                there.depot("priced").append([{"item": f"i{turn}", "price": turn}])
                if turn % 10 == 5:  # so that it is asked at several commits, however slow
                    with answered:
                        total = sum(range(turn + 1))
                        assert answered.wait_for(lambda total=total: max(seen) >= total, 120)

        def ask():
            while there.topology("mb").status()["processed"] < 40:
                found = app.query("sum", timeout_seconds=60)
                if found is not None:
                    with answered:
                        seen.add(found["total"])
                        answered.notify_all()
                    if found["total"] != found["summed"]:
                        wrong.append(found)

        threads = [threading.Thread(target=each) for each in (feed, ask, ask)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert wrong == []
        assert app.query("sum") == {"total": sum(range(40)), "summed": sum(range(40))}
        assert len(seen) > 4  # nothing yet, and four totals on the way


def test_only_what_the_module_mirrors_is_read():
    """The PState itself, or the mirror of another module object, is refused on its line."""
    other = shop()
    theirs = other.topologies["mb"].graph.pstates["prices"]
    mirror = till().mirrored_pstates["shop.prices"]
    module = atoll.Module("reader")
    asked = module.query("asked", item=str)
    for wrong in (theirs, mirror):
        with pytest.raises(DeclarationError, match="of module 'shop'") as caught:
            asked.lookup(wrong["item"], "price")
        assert "test_queries_of_mirrors.py" in caught.value.context["declared"]
        with pytest.raises(DeclarationError, match="of module 'shop'"):
            asked.select_from(wrong, lambda row: path.all(), emits="price long")
