"""Fixtures of the suite of security: a service with tokens of every kind, over a fake module."""

import sys
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from fakes import FakeApp

from atoll.access.authority import Authority
from atoll.access.roles import Role
from atoll.access.token_file import TokenFile
from atoll.access.tokens import created, revoked
from atoll.server import create_app


@pytest.fixture(autouse=True)
def _silent(silent_logs):
    """What threads log is in nobody's way."""


@pytest.fixture
def app():
    """A deployed module."""
    return FakeApp("shop")


@pytest.fixture
def root(tmp_path):
    """The folder of the service."""
    return tmp_path / "root"


@pytest.fixture
def tokens(root):
    """A token of each kind: by role, by what it is for, and such as have ended."""
    file = TokenFile.of(root)

    def make(name, role, now=None, **more):
        at = time.time_ns() // 1_000_000 if now is None else now
        return file.change(lambda kept: created(kept, name, role, at, **more))

    made = {str(role): make(str(role), role) for role in Role}
    made["shop"] = make("shop", Role.ADMIN, modules=["shop"])
    made["elsewhere"] = make("elsewhere", Role.ADMIN, modules=["elsewhere"])
    made["expired"] = make("expired", Role.ADMIN, now=1, lives_ms=1_000)
    made["revoked"] = make("revoked", Role.ADMIN)
    file.change(lambda kept: (revoked(kept, "revoked", 2), None))
    return made


@pytest.fixture
def application(app, root, tokens):
    """The service."""
    return create_app(app, authority=Authority.of(root))


@pytest.fixture
def client(application):
    """One who calls it."""
    with TestClient(application, base_url="http://127.0.0.1:7410") as found:
        yield found


@pytest.fixture
def bearer():
    """Makes the header that carries a token."""
    return lambda token: {"authorization": f"Bearer {token}"}
