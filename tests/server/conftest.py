"""Fixtures of the service's tests."""

import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent))

from fakes import FakeApp

from atoll.server import ServerSettings, create_app


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture
def app():
    """A deployed module."""
    return FakeApp()


@pytest.fixture
def client(app):
    """A client of a service with small limits over that module."""
    settings = ServerSettings(body_bytes_max=10_000, line_bytes_max=5_000)
    application = create_app(app, settings=settings)
    with TestClient(application, base_url="http://127.0.0.1:7410") as found:
        yield found
