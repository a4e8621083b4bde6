"""Cluster, depots, queries, options and events, in a real browser over a real module."""

from browsing import opened, served
from page_shop import build

from atoll import LocalCluster

PLACES = ("cluster", "depots/orders", "queries", "options", "events")


def test_readable_at_375_px(seen):
    """Dark, without scrolling sideways."""
    seen.page.set_viewport_size({"width": 375, "height": 740})
    seen.page.emulate_media(color_scheme="dark")
    for place in PLACES:
        page = seen.open(f"m/shop/{place}")
        page.locator("main .card, main .table").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, place


class TestCluster:
    """What runs where, and changing it."""

    def test_a_plan_is_shown_before_it_is_applied(self, seen, shop):
        """It says what moves; then the matrix shows it."""
        page = seen.open("m/shop/cluster")
        page.get_by_role("region", name="Fragments on units").get_by_text("unit 1").wait_for()
        page.get_by_label("then").fill("1")
        page.get_by_role("button", name="Show the plan").click()
        plan = page.locator(".plan")
        plan.get_by_text("vnodes to move").wait_for()
        assert shop[1].cluster.describe()["policies"]["sales"] == "adaptive"
        page.get_by_role("button", name="Apply …").click()
        page.locator("dialog").get_by_role("button", name="Apply").click()
        page.get_by_text("runs as 1").wait_for()
        page.locator("form", has_text="now fixed(1)").wait_for()
        assert shop[1].cluster.describe()["policies"]["sales"] == "fixed(1)"
        page.get_by_role("region", name="Revisions").get_by_text("parallelism of sales").wait_for()

    def test_a_policy_that_cannot_be(self, seen):
        """Says how they are written."""
        seen.expected = ("400",)
        page = seen.open("m/shop/cluster")
        page.get_by_label("then").fill("nonsense")
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_text("write adaptive, fixed(3)").wait_for()

    def test_cordon_a_worker_and_back(self, seen, shop):
        """After a question."""
        page = seen.open("m/shop/cluster")
        for word, state in (("cordon", "cordoned"), ("uncordon", "running")):
            page.get_by_role("button", name=word, exact=True).click()
            page.locator("dialog").get_by_role("button", name=word).click()
            page.get_by_role("region", name="Workers").get_by_text(state).wait_for()
            assert shop[1].cluster.describe()["workers"][0]["state"] == state


class TestDepots:
    """What lies in them, and appending."""

    def test_partitions_and_records_from_an_offset(self, seen):
        """Each record with its partition and offset."""
        page = seen.open("m/shop/depots/orders")
        page.get_by_role("region", name="Records").get_by_text("tea").first.wait_for()
        page.locator("input[name=from]").fill("3")
        page.locator("select[name=partition]").select_option("1")
        page.get_by_role("button", name="Look").click()
        first = page.get_by_role("region", name="Records").locator("tbody tr").first
        first.get_by_role("cell", name="3", exact=True).wait_for()
        assert first.locator("td").first.inner_text() == "1"
        assert "by customer" in page.locator(".facts").first.inner_text()

    def test_append_one_by_the_form(self, seen, shop):
        """Its fields are those of the schema; what does not fit is told before it is sent."""
        app = shop[1]
        before = sum(app.depot("orders").end_offsets())
        page = seen.open("m/shop/depots/orders")
        page.locator("input[name=customer]").fill("c000")
        page.locator("input[name=item]").fill("tea")
        page.locator("input[name=cents]").fill("x")
        page.get_by_role("button", name="Append").click()
        page.get_by_text("cents: x is no a whole number").wait_for()
        page.locator("input[name=cents]").fill("9007199254740993")
        page.get_by_role("button", name="Append").click()
        page.get_by_text("it lies in partition").wait_for()
        assert sum(app.depot("orders").end_offsets()) == before + 1
        batches = app.depot("orders").tail(follow=False, batch_records=1_000)
        rows = [row for batch in iter(lambda: batches.next(0), None) for row in batch.rows()]
        assert [row for row in rows if row["cents"] == 9007199254740993], "no digit was lost"


def test_a_query_is_asked_by_a_form(seen):
    """Its answer, and what is missing."""
    page = seen.open("m/shop/queries/spent")
    page.locator("input[name=customer]").fill("c005")
    page.get_by_role("button", name="Ask").click()
    page.locator("pre.value", has_text="2000").wait_for()


def test_options_are_set_in_place_and_taken_back(seen, shop):
    """Each says where its value comes from."""
    name = "depot.microbatch.max.records"
    page = seen.open("m/shop/options")
    row = page.get_by_role("row").filter(has=page.get_by_text(name, exact=True))
    assert "default" in row.inner_text()
    page.get_by_role("button", name=f"Set {name}").click()
    page.locator("dialog input").fill("1234")
    page.locator("dialog").get_by_role("button", name="Set").click()
    row.get_by_text("set for the topology").wait_for()
    assert shop[1].options.effective("sales").by_name()[name] == 1234
    page.get_by_role("button", name=f"Take {name} back").click()
    page.locator("dialog").get_by_role("button", name="Take back").click()
    row.get_by_text("set for the topology").wait_for(state="detached")


def test_events_tell_what_happened(seen, shop):
    """Newest first, by kind if wished; options as they were set."""
    shop[1].options.set("depot.max.fetch", 4321, topology="sales")
    page = seen.open("m/shop/events")
    page.get_by_text("epoch 1 began").wait_for()
    page.get_by_label("Kind").select_option("option")
    page.get_by_text("topology sales depot.max.fetch = 4321").wait_for()
    assert page.get_by_text("epoch 1 began").count() == 0


def test_what_fails_is_in_the_overview_with_what_to_do(browser, tmp_path):
    """And each failed attempt among the events, and beside the microbatch."""
    with LocalCluster(tmp_path, engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(build("broken"))
        app.depot("orders").append([{"customer": "c000", "item": "tea", "cents": -1}])
        with served(app) as url, opened(browser, url) as seen:
            page = seen.open("overview")
            note = page.locator(".note.bad")
            note.wait_for()
            assert "below nothing" in note.inner_text()
            assert "What to do:" in note.inner_text()
            page = seen.open("m/broken/events?kind=attempt")
            page.get_by_text("attempt 2 at microbatch 1 failed").wait_for()
