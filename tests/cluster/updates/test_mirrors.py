"""Modules that read each other: depots at offsets of their own, PStates as of one commit."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import atoll
from atoll import Map, Struct, agg, start
from atoll.cluster.local import LocalCluster
from atoll.errors import DeclarationError, DeployError, UsageError
from atoll.fsck.root import check_root
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
TIDY = {"pstate.history.seconds": 0, "pstate.checkpoint.interval.commits": 5}
"""So that commits go soon when nothing keeps them."""


def shop(
    *, doubled=False, private=False, partitions=3, vnodes=8, retain=None, price=int, drop=False
):
    """Keeps the last price of each item; its sales are only kept as records."""
    module = atoll.Module("shop")
    priced = module.depot("priced", "item string, price long", partition_by="item")
    if not drop:
        module.depot(
            "sales", "item string, amount long", partitions=partitions, retain_records=retain
        )
    mb = module.microbatch("mb", vnode_count=vnodes, options=TIDY)
    prices = mb.pstate("prices", Map(str, price), private=private)
    if doubled:
        prices.migrated("doubled", lambda value: 2 * value)
    mb.source(priced, start_from=FIRST).aggregate(prices["item"], agg.last("price"))
    return module


def till(*, vnodes=4, schema="item string, amount long", state=None, hook=None, records=None):
    """Counts and values what the shop sold."""
    options = {"depot.microbatch.max.records": records} if records else None
    module = atoll.Module("till")
    sales = module.mirror_depot("shop", "sales", schema)
    prices = module.mirror_pstate("shop", "prices", state or Map(str, int))
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    sold = mb.pstate("sold", Map(str, Struct(amount=int, revenue=int)))
    rows = mb.source(sales, start_from=FIRST).lookup(prices["item"], "price")

    def valued(row):
        if hook is not None:
            hook(row)
        return {"item": row.item, "amount": row.amount, "revenue": row.amount * (row.price or 0)}

    rows.map(valued, emits="item string, amount long, revenue long").aggregate(
        sold["item"], amount=agg.sum("amount"), revenue=agg.sum("revenue")
    )
    return module


def price(driver, **prices):
    """Set prices in one microbatch."""
    driver.depot("priced").append([{"item": i, "price": p} for i, p in prices.items()])
    driver.run()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_of_another_module_equals_a_plain_recount(tmp_path, seed):
    """Random cuts into microbatches of either module, failures and restarts of the reader."""
    chance = random.Random(seed)
    items = [f"i{number}" for number in range(9)]
    vnodes = chance.choice([1, 2, 7, 32])
    parallelism = chance.choice([1, 2, 3])
    partitions = chance.choice([1, 3])
    declared = {"vnodes": chance.choice([1, 5, 16]), "records": chance.choice([1, 3, 100])}
    known: dict[str, int] = {}
    amounts: Counter[str] = Counter()
    revenue: Counter[str] = Counter()
    with (
        TopologyTestDriver(
            shop(vnodes=vnodes, partitions=partitions), root=tmp_path, parallelism=2
        ) as first,
        TopologyTestDriver(till(**declared), root=tmp_path, parallelism=parallelism) as second,
    ):
        for _ in range(8):
            for item in chance.sample(items, 3):
                known[item] = chance.randrange(100)
                price(first, **{item: known[item]})
            sales = [(chance.choice(items), chance.randrange(9)) for _ in range(10)]
            first.depot("sales").append([{"item": i, "amount": a} for i, a in sales])
            for item, amount in sales:
                amounts[item] += amount
                revenue[item] += amount * known.get(item, 0)
            if chance.random() < 0.4:
                second.fail_next_attempt(after_work=True)
            if chance.random() < 0.3:
                second.restart()
            second.run_until_idle()
        found = second.pstate("sold").get()
        assert {i: each["amount"] for i, each in found.items()} == dict(amounts)
        assert {i: each["revenue"] for i, each in found.items()} == dict(revenue)
        assert second.status()["processed"] == 80
    assert check_root(tmp_path).findings == []


def test_a_retry_reads_the_mirrored_state_as_the_plan_says(tmp_path):
    """The price changes many times between two attempts, and what it was is long tidied away."""
    failing = []

    def fail_once(_):
        if not failing:
            failing.append(1)
            for value in range(2, 60):
                price(first, a=value)
            raise ValueError("once")

    with TopologyTestDriver(shop(), root=tmp_path) as first:
        price(first, a=1)
        first.depot("sales").append([{"item": "a", "amount": 10}])
        with TopologyTestDriver(till(hook=fail_once), root=tmp_path) as second:
            second.run_until_idle()
            assert second.status()["version"] in (0, 2)
            assert second.pstate("sold").get("a", "revenue") == 10
            assert not list(tmp_path.glob("shop/mb/pins/*"))
            assert len(list(tmp_path.glob("shop/mb/commits/*"))) > 55
            for value in range(60, 80):
                price(first, a=value)
            assert len(list(tmp_path.glob("shop/mb/commits/*"))) < 30  # now they may go
            first.depot("sales").append([{"item": "a", "amount": 1}])
            second.run_until_idle()
            assert second.pstate("sold").get("a", "revenue") == 89


def test_a_life_that_dies_after_its_plan_leaves_the_commit_readable(tmp_path):
    """The next life follows the plan it finds, pins and all."""
    with TopologyTestDriver(shop(), root=tmp_path) as first:
        price(first, a=1)
        first.depot("sales").append([{"item": "a", "amount": 10}])
        with TopologyTestDriver(till(), root=tmp_path) as second:
            while not list(tmp_path.glob("till/mb/plans/*")):
                second.step()
        for value in range(2, 60):
            price(first, a=value)
        with TopologyTestDriver(till(), root=tmp_path) as second:
            second.run_until_idle()
            assert second.pstate("sold").get("a", "revenue") == 10


def test_a_rollback_does_not_abandon_what_is_being_read(tmp_path):
    """It is refused while a plan names a later commit, and goes once that has committed."""
    with TopologyTestDriver(shop(), root=tmp_path) as first:
        for value in range(1, 4):
            price(first, a=value)
        first.depot("sales").append([{"item": "a", "amount": 10}])
        with TopologyTestDriver(till(), root=tmp_path) as second:
            while not list(tmp_path.glob("till/mb/plans/*")):
                second.step()
            with pytest.raises(UsageError, match=r"till\.mb reads what would be abandoned"):
                first.topology("mb").rollback(2)
            second.run_until_idle()
            first.topology("mb").rollback(2)
            assert first.pstate("prices").get("a") == 2
            assert second.pstate("sold").get("a", "revenue") == 30


def test_mirrored_values_may_be_migrated_within_their_schema(tmp_path):
    """The reader goes on without a deployment of its own, in the middle and at the end."""
    with TopologyTestDriver(shop(), root=tmp_path) as first:
        price(first, a=1, b=5)
        with TopologyTestDriver(till(), root=tmp_path) as second:
            first.update(shop(doubled=True))
            for amount in (10, 100):
                first.depot("sales").append([{"item": i, "amount": amount} for i in "ab"])
                second.run_until_idle()
                first.run_until_idle()
            assert first.status()["migrations"] == {}
            assert second.pstate("sold").get("a", "revenue") == 220
            assert second.pstate("sold").get("b", "revenue") == 1100


def test_retention_waits_for_mirrors(tmp_path):
    """Segments that only another module's topology has not read stay, and go afterwards."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(shop(partitions=1, retain=1))
        reader = cluster.deploy(till())
        reader.pause()
        for value in range(5):  # a segment each: every life begins a new one
            app.depot("sales").append([{"item": "a", "amount": value}])
            app = cluster.update(shop(partitions=1, retain=1))
        app._trim()
        assert app.depot("sales").start_offsets() == (0,)
        reader.resume()
        reader.topology("mb").wait_processed(5)
        assert reader.pstate("sold").get("a", "amount") == 10


def test_modules_can_mirror_each_other(tmp_path):
    """Each counts what comes from the other; deployed one, the other, and the first again."""

    def player(name, other=None):
        module = atoll.Module(name)
        balls = module.depot("balls", "n long", partition_by="n")
        mb = module.microbatch("mb", vnode_count=4)
        seen = mb.pstate("seen", Map(int, int))
        mb.source(balls, start_from=FIRST).aggregate(seen["n"], agg.count())
        if other is not None:
            theirs = module.mirror_depot(other, "balls", "n long")
            counts = module.mirror_pstate(other, "seen", Map(int, int))
            read = module.microbatch("read", vnode_count=2)
            far = read.pstate("far", Map(int, int))
            rows = read.source(theirs, start_from=FIRST).join(
                counts["n"], column="seen", how="left"
            )
            rows.map(
                lambda row: {"n": row.n, "k": row.seen or 0}, emits="n long, k long"
            ).aggregate(far["n"], agg.max("k"))
        return module

    with LocalCluster(tmp_path, engine="inline") as cluster:
        with pytest.raises(DeclarationError, match="no module 'pong' is deployed"):
            cluster.deploy(player("ping", "pong"))
        cluster.deploy(player("ping"))
        pong = cluster.deploy(player("pong", "ping"))
        ping = cluster.update(player("ping", "pong"))
        for app, count in ((ping, 2), (pong, 3)):
            app.depot("balls").append([{"n": 7}] * count)
            app.topology("mb").wait_processed(count)
        pong.topology("read").wait_processed(2)
        ping.topology("read").wait_processed(3)
        for app in (ping, pong):  # whatever was read at first, from now on all is there
            app.depot("balls").append([{"n": 7}])
        pong.topology("read").wait_processed(3)
        ping.topology("read").wait_processed(4)
        assert pong.pstate("far").get(7) in (2, 3)
        assert ping.pstate("far").get(7) in (3, 4)


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        (till(schema="item string"), "another schema than its mirror"),
        (till(state=Map(str, str)), "another schema than its mirror"),
    ],
)
def test_a_mirror_must_fit_what_is_deployed(tmp_path, module, problem):
    """The error names the declaration's line."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        cluster.deploy(shop())
        with pytest.raises(DeclarationError, match=problem) as caught:
            cluster.deploy(module)
        assert "test_mirrors.py" in caught.value.context["declared"]


def test_mirrors_of_what_is_not_there_or_private_are_refused(tmp_path):
    """The hint lists what there is."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        cluster.deploy(shop(private=True))
        with pytest.raises(DeclarationError, match="no PState 'prices' that can be mirrored"):
            cluster.deploy(till())
        other = atoll.Module("other")
        mirror = other.mirror_depot("shop", "nothing", "v long")
        mb = other.microbatch("mb")
        mb.source(mirror).aggregate(mb.pstate("n", int), agg.count())
        with pytest.raises(DeclarationError, match="no depot 'nothing'") as caught:
            cluster.deploy(other)
        assert caught.value.hint == "it has priced, sales"


def test_the_mirror_of_another_module_object_is_refused(tmp_path):
    """On the line that reads it."""
    mirror = till().mirrored_pstates["shop.prices"]
    module = atoll.Module("other")
    mb = module.microbatch("mb")
    paid = mb.pstate("paid", Map(str, int))
    rows = mb.source(module.depot("sales", "item string")).lookup(mirror["item"], "price")
    rows.aggregate(paid["item"], agg.sum("price"))
    with LocalCluster(tmp_path, engine="inline") as cluster:
        cluster.deploy(shop())
        with pytest.raises(DeclarationError, match="module 'other' does not mirror") as caught:
            cluster.deploy(module)
        assert "test_mirrors.py" in caught.value.context["declared"]


def test_an_update_that_would_break_a_mirror_is_refused(tmp_path):
    """It names who mirrors what; the running version goes on."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(shop())
        cluster.deploy(till())
        with pytest.raises(DeployError, match=r"module 'till' mirrors the pstate 'prices'"):
            cluster.update(shop(private=True))
        app.depot("priced").append([{"item": "a", "price": 1}])
        app.topology("mb").wait_processed(1)


def test_a_mirror_that_was_taken_out_can_be_put_in_again(tmp_path):
    """As the schema of what is mirrored can only be changed while it is not."""

    def counting(state=None):
        module = atoll.Module("till")
        own = module.depot("own", "item string")
        mb = module.microbatch("mb", vnode_count=2)
        seen = mb.pstate("seen", Map(str, int))
        mb.source(own, start_from=FIRST).aggregate(seen["item"], agg.count())
        if state is not None:
            sales = module.mirror_depot("shop", "sales", "item string, amount long")
            prices = module.mirror_pstate("shop", "prices", Map(str, state))
            rows = mb.source(sales, start_from=FIRST).lookup(prices["item"], "price")
            rows.aggregate(seen["item"], agg.count())
        return module

    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(shop())
        app.depot("sales").append([{"item": "a", "amount": 1}])
        cluster.deploy(counting(int)).topology("mb").wait_processed(1)
        wider = shop(price=float, doubled=True)
        with pytest.raises(DeployError, match="till"):
            cluster.update(wider)
        cluster.update(counting())
        app = cluster.update(wider)
        reader = cluster.update(counting(float))
        app.depot("sales").append([{"item": "a", "amount": 1}])
        reader.topology("mb").wait_processed(2)
        assert reader.pstate("seen").get("a") == 2


def test_mirrors_cannot_be_written_and_mistakes_name_their_line():
    """Declaring refuses what a mirror cannot be used for."""
    module = atoll.Module("reader")
    events = module.depot("events", "item string")
    mirror = module.mirror_pstate("shop", "prices", Map(str, int))
    module.mirror_depot("shop", "sales", "item string, amount long")
    mb = module.microbatch("mb")
    rows = mb.source(events)
    with pytest.raises(DeclarationError, match="a mirror"):
        rows.aggregate(mirror["item"], agg.count())
    with pytest.raises(DeclarationError, match="a mirror"):
        rows.process(lambda row, state: None, key="item", states=[mirror])
    with pytest.raises(DeclarationError, match="changes of"):
        mirror.changes("item")
    other = atoll.Module("shop").depot("sales", "item string")
    with pytest.raises(DeclarationError, match="belongs to module 'shop'"):
        rows.append_to(other)
    with pytest.raises(DeclarationError, match="cannot mirror what is its own"):
        module.mirror_depot("reader", "events", "item string")
    with pytest.raises(DeclarationError, match="mirrored twice") as caught:
        module.mirror_depot("shop", "sales", "item string")
    assert "test_mirrors.py" in caught.value.context["declared"]
