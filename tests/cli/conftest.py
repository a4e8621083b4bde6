"""Fixtures of the command line's tests: a running service, and a way to call ``atoll``."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from fakes import FakeApp

from atoll.server import create_app, serve
from atoll.server.serve import bind


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture
def app():
    """A deployed module."""
    return FakeApp()


class _Service:
    """One listening service for all tests; each test's application has a path of its own.

    A request that a client gave up may arrive when its test is over: it still meets the
    application of that test, and none of the one that runs by then.
    """

    def __init__(self):
        self.applications = []
        self.address = None

    @property
    def application(self):
        """What the test that runs serves."""
        return self.applications[-1]

    @application.setter
    def application(self, application):
        self.applications.append(application)

    @property
    def url(self):
        """Where that is."""
        return f"{self.address.url}/{len(self.applications) - 1}"

    async def __call__(self, scope, receive, send):
        """Answer with the application that the path names."""
        number, _, rest = scope["path"].removeprefix("/").partition("/")
        raw = scope["raw_path"].removeprefix(b"/").partition(b"/")[2]
        of_test = {**scope, "path": f"/{rest}", "raw_path": b"/" + raw}
        await self.applications[int(number)](of_test, receive, send)


@pytest.fixture(scope="session")
def service():
    """The service for all tests."""
    service = _Service()
    with serve(service, bind("127.0.0.1", 0)) as service.address:
        yield service


@pytest.fixture
def url(app, service, monkeypatch):
    """Where a service over the module listens; commands find it by ATOLL_URL."""
    service.application = create_app(app)
    monkeypatch.setenv("ATOLL_URL", service.url)
    return service.url


@pytest.fixture
def serve_instead(service, monkeypatch):
    """Lets commands find another application."""

    def serving(application):
        service.application = application
        monkeypatch.setenv("ATOLL_URL", service.url)

    return serving


@pytest.fixture
def atoll(run_atoll):
    """Call ``atoll`` with arguments."""
    return run_atoll
