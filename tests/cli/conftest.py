"""Fixtures of the command line's tests: a running service, and a way to call ``atoll``."""

import sys
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture(scope="session")
def _service():
    """One listening service for all tests, over the application of the test that runs."""
    current = SimpleNamespace(application=None)

    async def dispatch(scope, receive, send):
        await current.application(scope, receive, send)

    with serve(dispatch, bind("127.0.0.1", 0)) as address:
        current.url = address.url
        yield current


@pytest.fixture
def url(app, _service, monkeypatch):
    """Where a service over the module listens; commands find it by ATOLL_URL."""
    _service.application = create_app(app)
    monkeypatch.setenv("ATOLL_URL", _service.url)
    return _service.url


@pytest.fixture
def atoll(run_atoll):
    """Call ``atoll`` with arguments."""
    return run_atoll
