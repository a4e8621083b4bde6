"""A proxy before the service: only it connects, and it says addresses, not names."""

import pytest
from starlette.testclient import TestClient

from atoll.access.authority import Authority
from atoll.server import ServerSettings, create_app


@pytest.fixture
def behind(app, root, tokens):
    """Makes a client whose connection comes from an address."""
    settings = ServerSettings(proxies=("10.0.0.0/30",), hosts=("atoll.example",))
    application = create_app(app, settings=settings, authority=Authority.of(root))

    def connecting(host):
        return TestClient(application, base_url="http://atoll.example", client=(host, 1))

    return connecting


def test_only_the_proxy_and_this_machine_connect(behind, bearer, tokens):
    """Others are refused with a good token too: it would have crossed the network unprotected."""
    headers = bearer(tokens["admin"])
    for host in ("10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.2"):
        assert behind(host).get("/v1/modules", headers=headers).status_code == 200
    for host in ("10.0.0.4", "192.168.0.1", "::ffff:10.0.0.9", "fe80::1"):
        assert behind(host).get("/v1/modules", headers=headers).status_code == 403


def test_the_proxy_names_nobody(behind):
    """Whatever header it adds."""
    told = {"x-forwarded-user": "admin", "x-remote-user": "admin", "forwarded": "for=127.0.0.1"}
    assert behind("10.0.0.1").get("/v1/modules", headers=told).status_code == 401


def test_tries_are_counted_by_the_address_that_the_proxy_added(behind, bearer):
    """What stands before it is the client's own invention."""
    proxy = behind("10.0.0.1")

    def asked(address):
        headers = {**bearer("x"), "x-forwarded-for": address}
        return proxy.get("/v1/modules", headers=headers).status_code

    assert {asked(f"1.1.1.{n}, 2.2.2.2") for n in range(10)} == {401}
    assert asked("9.9.9.9, 2.2.2.2") == 429
    assert asked("2.2.2.2, 3.3.3.3") == 401


def test_cookies_are_for_tls_only(behind, tokens):
    """Since the proxy speaks it."""
    answer = behind("10.0.0.1").post("/v1/session", json={"token": tokens["viewer"]})
    assert answer.headers["set-cookie"].startswith("__Host-atoll=")
