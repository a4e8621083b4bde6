"""The shell, the overview, a topology and its microbatches, in a real browser over real modules."""

from browsing import NARROW, Seen


def test_at_each_width_and_theme(seen):
    """Readable at 375 px without scrolling sideways, light and dark."""
    for place in ("overview", "m/shop/topology/sales", "m/shop/microbatches/sales/2?with=3"):
        page = seen.open(place)
        page.locator(".heard.good").wait_for()
        for width, scheme in ((1280, "light"), (375, "dark")):
            page.set_viewport_size({"width": width, "height": 740})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(16, 22, 27)"


class TestOverview:
    """All modules, and what needs somebody."""

    def test_topologies_with_state_lag_and_microbatch(self, seen):
        """And nothing needs attention."""
        page = seen.open("overview")
        row = page.locator("tr", has_text="sales").inner_text()
        assert "running" in row
        assert "120" in row
        assert page.locator(".note.good").inner_text().startswith("Nothing")

    def test_it_is_live(self, seen, shop):
        """A paused topology needs attention, with what to do, without a reload."""
        page = seen.open("overview")
        page.wait_for_selector(".note.good")
        topology = shop[1].topology("sales")
        topology.pause()
        try:
            note = page.wait_for_selector(".note.idle")
            assert "What to do: resume it" in note.inner_text()
        finally:
            topology.resume()
        page.wait_for_selector(".note.good")


class TestTopology:
    """The graph, its counts, and moving a topology by hand."""

    def test_a_step_by_the_keyboard(self, seen):
        """Its counts, its line of code, and an address of its own."""
        page = seen.open("m/shop/topology/sales")
        box = page.locator(".box", has_text="map check")
        box.focus()
        page.keyboard.press("Enter")
        card = page.locator(".card", has_text="page_shop.py:")
        card.wait_for()
        assert "120" in card.inner_text()  # since it started
        assert "node=step" in page.url
        page.reload()
        card.wait_for()

    def test_a_depot_and_a_pstate_lead_to_their_pages(self, seen):
        """By a link in what is told of them."""
        page = seen.open("m/shop/topology/sales")
        for kind, name, place in (("depot", "audit", "depots"), ("PState", "total", "state")):
            page.locator(f".box.{kind.lower()}", has_text=name).click()
            page.get_by_role("heading", name=f"{kind} {name}").wait_for()
            link = page.get_by_role("link", name="Look into it")
            assert link.get_attribute("href") == f"#/m/shop/{place}/{name}"

    def test_rows_stand_on_edges_and_colours_can_be_chosen(self, seen):
        """By time, rows and skew."""
        page = seen.open("m/shop/topology/sales")
        page.wait_for_selector(".arrow text")
        assert "30" in page.locator(".arrow text").all_text_contents()
        for by in ("by rows", "by skew", "by time"):
            page.get_by_role("button", name=by).click()
            page.wait_for_selector(".box .heat")

    def test_pause_and_resume_after_a_question(self, seen, shop):
        """Cancelled, nothing happens."""
        page = seen.open("m/shop/topology/sales")
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Cancel").click()
        assert shop[1].topology("sales").status()["state"] == "running"
        page.get_by_role("button", name="Pause").click()
        page.locator("dialog").get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").wait_for()
        assert shop[1].topology("sales").status()["state"] == "paused"
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Pause").wait_for()

    def test_a_rollback_shows_its_plan_first(self, seen, shop):
        """What it abandons, and what stays in depots; cancelled, nothing happens."""
        topology = shop[1].topology("sales")
        before = topology.status()["committed"]
        page = seen.open("m/shop/topology/sales")
        page.get_by_role("button", name="Roll back").click()
        page.locator("dialog input").fill(str(before - 2))
        page.get_by_role("button", name="Show the plan").click()
        plan = page.locator("dialog", has_text="abandoned")
        plan.wait_for()
        assert "2 microbatches" in plan.inner_text()
        assert "60 records" in plan.inner_text()
        assert "38 rows to audit" in plan.inner_text()
        page.get_by_role("button", name="Cancel").click()
        assert topology.status()["committed"] == before

    def test_read_only_offers_no_change(self, seen):
        """And stays so after a reload."""
        page = seen.open("m/shop/topology/sales")
        page.get_by_role("button", name="Pause").wait_for()
        page.get_by_label("read only").check()
        page.get_by_role("button", name="Pause").wait_for(state="detached")
        page.reload()
        page.wait_for_selector(".box")
        assert page.get_by_role("button", name="Pause").count() == 0


class TestMicrobatches:
    """The timeline, one of them, and two beside each other."""

    def test_open_one_from_the_timeline(self, seen):
        """Ranges, rows by step, vnodes."""
        page = seen.open("m/shop/microbatches")
        page.locator(".timeline .bar").first.click()
        card = page.locator(".card")
        card.get_by_text("Ranges read").wait_for()
        told = card.inner_text()
        assert "map (page_shop.py:" in told
        assert "16 vnodes changed" in told
        assert "microbatches/sales/" in page.url

    def test_compare_two(self, seen):
        """Each difference in percent, under an address of its own."""
        page = seen.open("m/shop/microbatches/sales/2?with=3")
        page.get_by_role("columnheader", name="difference").wait_for()
        assert "%" in page.locator(".card").inner_text()

    def test_one_that_is_gone(self, seen):
        """It says which are remembered."""
        seen.expected = ("404",)
        page = seen.open("m/shop/microbatches/sales/999")
        alert = page.get_by_role("alert")
        alert.wait_for()
        assert "remembers the last 256" in alert.inner_text()


def test_the_whole_is_reachable_by_the_keyboard(seen):
    """The first stop leads past the navigation."""
    page = seen.open("overview")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_a_service_that_goes_away_is_told_and_found_again(browser, shop):
    """Tries come ever more rarely, and the page goes on by itself."""
    from atoll.server import create_app, serve
    from atoll.server.serve import bind

    context = browser.new_context(viewport=NARROW)
    try:
        with serve(create_app(shop[1]), bind("127.0.0.1", 0)) as address:
            seen = Seen(context.new_page(), address.url)
            page = seen.open("overview")
            page.wait_for_selector(".heard.good")
        page.wait_for_selector("text=trying again")
        with serve(create_app(shop[1]), bind("127.0.0.1", address.port)):
            page.wait_for_selector(".heard.good")
    finally:
        context.close()
