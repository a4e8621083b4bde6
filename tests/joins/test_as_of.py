"""Rows beside the value that held at their time, of a PState that has values by time."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import atoll
from atoll import Map, Struct, agg, start
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TIMES = {
    "long": (int, lambda at: at),
    "timestamp": (dt.datetime, lambda at: EPOCH + dt.timedelta(seconds=at)),
    "date": (dt.date, lambda at: EPOCH.date() + dt.timedelta(days=at)),
}


def shop(kind, *, apart, vnodes=4, partitions=1):
    """Prices by item and the time since which they hold; sales beside the price of their time."""
    module = atoll.Module("shop")
    columns = f"item string, since {kind}, price long, gone boolean"
    priced = module.depot("priced", columns, partition_by="item", partitions=partitions)
    sales = module.depot(
        "sales", f"n long, item string, at {kind}", partition_by="item", partitions=partitions
    )
    options = {"pstate.history.seconds": 0, "pstate.history.microbatches": 20}
    mb = module.microbatch("mb", vnode_count=vnodes, options=options)
    keep = module.microbatch("keep", vnode_count=vnodes, options=options) if apart else mb
    prices = keep.pstate("prices", Map(str, Map(TIMES[kind][0], int | None)))
    rows = keep.source(priced, start_from=FIRST)
    rows.where("gone").aggregate(prices["item"]["since"], agg.voided())
    rows.where("NOT gone").aggregate(prices["item"]["since"], agg.last("price"))
    told = mb.pstate("told", Map(int, Struct(price=int | None, kept=bool)))
    found = mb.source(sales, start_from=FIRST).lookup(prices["item"].as_of("at"), "price")
    kept = found.where("price IS NOT NULL").join(prices["item"].as_of("at"), column="again")
    found.aggregate(told["n"], price=agg.last("price"), kept=agg.last("false"))
    kept.aggregate(told["n"], price=agg.last("again"), kept=agg.last("true"))
    return module


@st.composite
def cases(draw):
    """Versions that come, change and go, also late ones; rows between; what must not show."""
    item, at = st.sampled_from(["a", "b", "a much longer key \x00 of an item"]), st.integers(0, 9)
    price = st.one_of(st.none(), st.integers(0, 99))
    version = st.tuples(st.just("priced"), item, at, price, st.integers(0, 3).map(lambda n: n == 0))
    sale = st.tuples(st.just("sales"), item, st.integers(-1, 11))
    return {
        "stretches": draw(
            st.lists(st.lists(st.one_of(version, sale), max_size=6), min_size=1, max_size=8)
        ),
        "kind": draw(st.sampled_from(list(TIMES))),
        "apart": draw(st.booleans()),
        "vnodes": draw(st.sampled_from([1, 3, 8])),
        "partitions": draw(st.integers(1, 3)),
        "failing": draw(st.sets(st.integers(0, 7), max_size=3)),
        "restarting": draw(st.sets(st.integers(0, 7), max_size=1)),
        "resizing": draw(st.dictionaries(st.integers(0, 7), st.integers(1, 3), max_size=2)),
        "going_back": draw(st.sets(st.integers(1, 7), max_size=1)),
    }


def holds(versions, item, at):
    """The value of the last time that is not after it."""
    times = sorted(versions.get(item, {}))
    place = bisect_right(times, at)
    return versions[item][times[place - 1]] if place else None


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(cases())
def test_each_row_has_the_value_of_its_time(case):
    """Of the versions that were there before its microbatch, whatever else happens."""
    made = TIMES[case["kind"]][1]
    module = shop(
        case["kind"], apart=case["apart"], vnodes=case["vnodes"], partitions=case["partitions"]
    )
    versions, wanted = {}, {}
    keeping = "keep" if case["apart"] else "mb"
    with TopologyTestDriver(module, engine="inline", parallelism=3) as driver:
        for number, stretch in enumerate(case["stretches"]):
            for _, item, at, price, gone in (each for each in stretch if each[0] == "priced"):
                record = {"item": item, "since": made(at), "price": price, "gone": gone}
                driver.depot("priced").append([record])
                driver.run_until_idle()
                versions.setdefault(item, {})[at] = price
                if gone:
                    del versions[item][at]
            before = driver.status("mb")["committed"]
            for _, item, at in (each for each in stretch if each[0] == "sales"):
                n = len(wanted)
                driver.depot("sales").append([{"n": n, "item": item, "at": made(at)}])
                price = holds(versions, item, at)
                wanted[n] = {"price": price, "kept": price is not None}
            if number in case["failing"]:
                driver.fail_next_attempt("mb", after_work=True)
            if number in case["resizing"]:
                driver.app.cluster.resize(keeping, case["resizing"][number])
            driver.run_until_idle()
            if number in case["going_back"] and before:
                driver.topology("mb").rollback(to_microbatch=before)
                driver.topology("mb").resume()
                driver.run_until_idle()
            if number in case["restarting"]:
                driver.restart()
            assert (driver.pstate("told").get() or {}) == wanted


def test_a_global_state_may_have_values_by_time():
    """Without another key."""
    module = atoll.Module("rates")
    rates, orders = (
        module.depot("rates", "since long, rate long"),
        module.depot("orders", "at long"),
    )
    mb = module.microbatch("mb")
    known = mb.pstate("known", Map(int, Struct(rate=int)), is_global=True)
    mb.source(rates).aggregate(known["since"], rate=agg.last("rate"))
    seen = mb.pstate("seen", Map(int, int))
    found = mb.source(orders).join(known.as_of("at"), column="held")
    found.aggregate(seen["at"], agg.last("held.rate"))
    with TopologyTestDriver(module, engine="inline") as driver:
        driver.depot("rates").append([{"since": 10, "rate": 1}, {"since": 20, "rate": 2}])
        driver.microbatch()
        driver.depot("orders").append([{"at": at} for at in (5, 10, 15, 25)])
        driver.microbatch()
        assert driver.pstate("seen").get() == {10: 1, 15: 1, 25: 2}


def test_a_query_reads_as_of_a_time():
    """As a topology does."""
    module = shop("long", apart=False)
    prices = module.pstates()["prices"]
    module.query("at", item=str, at=int).lookup(prices["item"].as_of("at"), "p").returns("p")
    with TopologyTestDriver(module, engine="inline") as driver:
        record = {"item": "a", "since": 5, "price": 7, "gone": False}
        driver.depot("priced").append([record])
        driver.microbatch()
        assert [driver.app.query("at", item="a", at=at) for at in (4, 5, 6)] == [None, 7, 7]


def test_what_cannot_be_read_as_of_a_time_is_refused():
    """Where it stands, with how to declare it."""
    module = atoll.Module("wrong")
    mb = module.microbatch("mb")
    rows = mb.source(module.depot("rows", "k string, at long"))
    by_time = mb.pstate("by_time", Map(str, Map(int, int)))
    with pytest.raises(DeclarationError, match="holds no values by time"):
        mb.pstate("flat", Map(str, int))["k"].as_of("at")
    with pytest.raises(DeclarationError, match="holds no values by time"):
        mb.pstate("texts", Map(str, Map(str, int)))["k"].as_of("at")
    with pytest.raises(DeclarationError, match="stored element by element"):
        mb.pstate("deep", Map(str, Map(int, Map(int, int))))["k"].as_of("at")
    with pytest.raises(DeclarationError, match="partitioned by the time"):
        mb.pstate("top", Map(int, int)).as_of("at")
    with pytest.raises(DeclarationError, match="can only be read") as caught:
        rows.aggregate(by_time["k"].as_of("at"), agg.count())
    assert 'by_time["k"]["at"]' in caught.value.hint
