"""A page of a real browser, and a service for it to look at."""

from contextlib import contextmanager

from atoll.server import ServerSettings, create_app, serve
from atoll.server.serve import bind

WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 375, "height": 740}
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def served(*apps, **more):
    """The address of a service over some modules."""
    application = create_app(*apps, settings=ServerSettings(heartbeat_seconds=1.0), **more)
    with serve(application, bind("127.0.0.1", 0)) as address:
        yield address.url


class Seen:
    """A page of a browser, and what went wrong on it."""

    def __init__(self, page, url):
        self.page = page
        self.url = url
        self.wrong = []
        self.expected = ()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", self._request)
        page.set_default_timeout(20_000)

    def _console(self, message):
        if message.type == "error":
            self.wrong.append(f"console: {message.text} {message.location}")

    def _failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # the page itself gave it up
            self.wrong.append(f"failed: {request.url} {request.failure}")

    def _request(self, request):
        if not request.url.startswith((f"{self.url}/", "data:")):
            self.wrong.append(f"another host: {request.url}")

    def open(self, place):
        """Go to a place of the page, and wait until it shows its heading."""
        self.page.goto(f"{self.url}/#/{place}")
        self.page.wait_for_selector("main h1")
        return self.page

    def check(self):
        """Nothing went wrong but what was expected."""
        bad = [each for each in self.wrong if not any(text in each for text in self.expected)]
        assert bad == []


@contextmanager
def opened(browser, url, **how):
    """A fresh page; what went wrong on it fails the test."""
    context = browser.new_context(viewport=WIDE, **how)
    try:
        found = Seen(context.new_page(), url)
        yield found
        found.check()
    finally:
        context.close()
