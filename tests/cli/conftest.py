"""Fixtures of the command line's tests: a running service, and a way to call ``atoll``."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from fakes import FakeApp

from atoll.cli import main
from atoll.server import create_app, serve
from atoll.server.serve import bind


@dataclass
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _silent_logs():
    """The service logs in threads of its own, also into the output of the next test."""
    logger = logging.getLogger("atoll")
    logger.handlers = [logging.NullHandler()]
    logger.propagate = False


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
def atoll(capsys, monkeypatch):
    """Call ``atoll`` with arguments; never a traceback, whatever happens."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["atoll", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Done(int(code), captured.out, captured.err)

    return call
