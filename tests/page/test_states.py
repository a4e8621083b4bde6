"""The state browser, over nested state and over much of it."""

import statistics

import pytest
from browsing import opened, served
from harness import soaking

from atoll import LocalCluster, Map, Module, agg

KEYS = 1_000_000 if soaking() else 20_000
SECONDS_MAX = 0.1 if soaking() else 2.0
"""A machine that runs other tests beside this one is no measure; the soak is."""

TURN = """(first) => new Promise((done) => {
    const all = (which) => [...document.querySelectorAll(which)];
    const named = (which, text) => all(which).find((each) => each.textContent === text);
    const began = performance.now();
    const look = () =>
        named("tbody a", first) ? done(performance.now() - began) : setTimeout(look, 2);
    named("button", "After").click();
    look();
})"""
"""Turns a page, and says after how many milliseconds its first key was there."""


def test_from_a_key_down_to_a_value_and_copied(seen):
    """By links, page by page; every place has an address and three ways to read it elsewhere."""
    page = seen.open("m/shop/state/by_customer")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="c007").click()
    page.get_by_role("link", name="bread").click()
    page.locator("pre.value", has_text="700").wait_for()
    read = "navigator.clipboard.readText()"
    page.get_by_role("button", name="Python").click()
    page.get_by_text("copied").wait_for()
    assert page.evaluate(read) == (
        "app.pstate(\"by_customer\").select(path.key('c007').key('bread'))"
    )
    page.get_by_role("button", name="command line").click()
    page.get_by_role("button", name="copied").first.wait_for()
    assert '--path \'[["key","c007"],["key","bread"]]\'' in page.evaluate(read)
    page.reload()
    page.locator("pre.value", has_text="700").wait_for()


def test_keys_typed_a_key_to_begin_from_and_an_earlier_microbatch(seen):
    """What does not fit is told, with what does."""
    page = seen.open("m/shop/state/by_customer")
    page.get_by_label("From key").fill("c02")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("link", name="c000").wait_for(state="detached")
    page.get_by_role("link", name="c020").wait_for()
    page.get_by_role("button", name="Before").click()
    page.get_by_role("link", name="c019").wait_for()
    page.get_by_label("Keys or a path").fill("c003 / tea")
    page.get_by_label("As of microbatch").fill("1")
    page.get_by_role("button", name="Go").click()
    page.get_by_text("as of microbatch 1").wait_for()
    page.locator("pre.value", has_text="300").wait_for()
    page.get_by_label("Keys or a path").fill("c003 / tea / more")
    page.get_by_role("button", name="Go").click()
    page.get_by_text("nothing is below int").wait_for()


def test_a_set_in_a_struct_and_the_skew(seen):
    """Fields, elements, and a cell for each vnode."""
    page = seen.open('m/shop/state/items?path=[["key","tea"]]')
    page.get_by_role("link", name="customers").click()
    page.get_by_text("c005").wait_for()
    assert page.locator(".heatmap i").count() == 16
    page.get_by_role("button", name="count them").click()
    page.locator(".facts", has_text="entries").get_by_text("3", exact=True).wait_for()


def test_it_follows_what_is_committed(seen, shop):
    """Without a reload, while *follow* is on."""
    app = shop[1]
    page = seen.open("m/shop/state/total")
    before = app.pstate("total").get()
    page.locator("pre.value", has_text=f"{before}").wait_for()
    app.wait(app.depot("orders").append([{"customer": "c000", "item": "tea", "cents": 1}]))
    page.locator("pre.value", has_text=f"{before + 1}").wait_for()


@pytest.fixture
def much(tmp_path):
    """A service over a map of many keys."""
    module = Module("much")
    records = module.depot("records", "k long NOT NULL", partition_by="k")
    mb = module.microbatch("mb")
    counts = mb.pstate("counts", Map(int, int))
    mb.source(records).aggregate(counts["k"], agg.count())
    with LocalCluster(tmp_path, engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(module)
        step = 100_000
        for first in range(0, KEYS, step):
            keys = range(first, min(KEYS, first + step))
            app.depot("records").append([{"k": key} for key in keys])
        app.topology("mb").wait_processed(KEYS, timeout_seconds=600)
        with served(app) as url:
            yield url


def test_pages_of_much_state_come_at_once(browser, much):
    """Each page reads its own entries, however many there are, and the table stays small."""
    with opened(browser, much) as seen:
        page = seen.open("m/much/state/counts")
        page.get_by_role("link", name="0", exact=True).wait_for()
        took = []
        for first in range(50, 550, 50):
            took.append(page.evaluate(TURN, str(first)) / 1000)
            assert page.locator("tbody tr").count() <= 60
        assert statistics.median(took) < SECONDS_MAX, took
        page.get_by_label("From key").fill(str(KEYS - 10))
        page.get_by_role("button", name="Go").click()
        page.get_by_role("link", name=str(KEYS - 1), exact=True).wait_for()
        assert page.get_by_role("button", name="After").is_disabled()


def test_what_is_being_typed_stays_when_something_is_committed(seen, shop):
    """The page is drawn anew with each commit; the form is not."""
    app = shop[1]
    page = seen.open("m/shop/state/total")
    page.get_by_label("As of microbatch").fill("2")
    page.get_by_label("From key").fill("half a k")
    before = app.pstate("total").get()
    app.wait(app.depot("orders").append([{"customer": "c000", "item": "tea", "cents": 1}]))
    page.locator("pre.value", has_text=f"{before + 1}").wait_for()
    assert page.get_by_label("As of microbatch").input_value() == "2"
    assert page.get_by_label("From key").input_value() == "half a k"
