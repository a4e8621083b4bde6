"""A real browser, and a service over real modules for it to look at.

Everything that a page must never do fails the test that saw it: an error in the console (which is
where a violation of the content security policy shows), an exception, a request that failed.
"""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from browsing import QUIET, WIDE, Seen, served
from page_shop import build, fill

from atoll import LocalCluster

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture(scope="module")
def browser():
    """Chromium; without one its tests are skipped.

    For a module and no longer: while it runs, playwright has an event loop in this thread, and no
    other test could run one.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is on the PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=found, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A cluster with a module that has processed a few microbatches."""
    folder = tmp_path_factory.mktemp("shop")
    with LocalCluster(folder, engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(build())
        fill(app)
        yield cluster, app


@pytest.fixture(scope="module")
def url(shop):
    """Where its page is."""
    cluster, app = shop
    with served(app, cluster=cluster.whole) as found:
        yield found


@pytest.fixture(scope="module")
def context(browser):
    """What the pages of a module share: the files that a browser keeps."""
    made = browser.new_context(viewport=WIDE)
    yield made
    made.close()


@pytest.fixture
def seen(context, url):
    """A fresh page; what went wrong on it fails the test."""
    found = Seen(context.new_page(), url)
    yield found
    found.page.evaluate("localStorage.clear()")
    found.page.close()
    found.check()
