"""Runtimes on the page: their actors, copies and counters, and events by hand."""

import pytest
from browsing import opened, served

from atoll import LocalCluster
from atoll.runtime.service.runtimes import Runtimes

DEFINITION = {
    "name": "outliers",
    "actors": [
        {"name": "low", "type": "threshold", "params": {"key": "v", "threshold": 10}},
        {"name": "high", "type": "threshold", "params": {"key": "v", "threshold": 20}},
    ],
    "links": [{"from": "low", "to": "high"}],
    "distribution": {"copies": 2},
}


@pytest.fixture
def url(tmp_path):
    """A service with one runtime, which runs."""
    with LocalCluster(tmp_path, engine="inline", parallelism=2) as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        made = runtimes.create(DEFINITION)
        runtimes.start(made)
        with served(runtimes=runtimes, cluster=cluster.whole) as found:
            yield found
        runtimes.close()


def test_a_runtime_its_actors_and_events(browser, url):
    """Choose an actor, shunt an event and send one; its copies count."""
    with opened(browser, url) as seen:
        page = seen.open("runtimes")
        page.locator(".box", has_text="low").click()
        page.get_by_label("An object as JSON").fill('{"v": 15}')
        page.get_by_role("button", name="Shunt").click()
        page.get_by_text("answered").wait_for()
        page.get_by_role("button", name="Send").click()
        page.get_by_text("sent; it lies on disk").wait_for()
        copies = page.get_by_role("region", name="Copies")
        assert copies.locator("tbody tr").count() == 2
        page.set_viewport_size({"width": 375, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
