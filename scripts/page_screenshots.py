"""Pictures of the web page for its guide: ``python scripts/page_screenshots.py``.

It needs Chromium and playwright, runs the module of the page's tests without Spark, and writes
into ``docs/figures``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "page"))

from browsing import NARROW, QUIET, WIDE, served  # noqa: E402
from page_shop import build, fill  # noqa: E402

from atoll import LocalCluster  # noqa: E402

PICTURES = {
    "page-topology": ("m/shop/topology/sales", WIDE, "light"),
    "page-microbatches": ("m/shop/microbatches/sales", WIDE, "dark"),
    "page-state": ("m/shop/state/by_customer", NARROW, "light"),
    "page-cluster": ("m/shop/cluster", NARROW, "dark"),
}
"""By name: the place, the size of the window, and the theme."""
ROUNDS = 40


def main() -> None:
    """Make them all."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(folder, engine="inline", parallelism=2) as cluster,
        sync_playwright() as playwright,
    ):
        app = cluster.deploy(build())
        fill(app, rounds=ROUNDS)
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(QUIET)
        )
        with served(app, cluster=cluster.whole) as url:
            for name, (place, size, scheme) in PICTURES.items():
                page = chromium.new_page(viewport=size, color_scheme=scheme)
                page.goto(f"{url}/#/{place}")
                page.locator(".heard.good").wait_for()
                page.locator(".card, .box, .bar").first.wait_for()
                page.screenshot(path=ROOT / "docs" / "figures" / f"{name}.png")
                page.close()
        chromium.close()


if __name__ == "__main__":
    main()
