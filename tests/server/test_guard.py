"""The door: other hosts, other origins, form posts and large bodies never reach a route."""

import pytest
from fakes import FakeApp
from starlette.testclient import TestClient

from atoll.server import ServerSettings, create_app
from atoll.server.guard import _host_name, _same_origin

RECORDS = "/v1/modules/key-pairs/depots/numbers/records"
ROUTES = [
    ("GET", "/v1/modules"),
    ("GET", "/v1/status"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("POST", RECORDS),
    ("POST", "/v1/modules/key-pairs/pstates/global_sum/select"),
    ("POST", "/v1/modules/key-pairs/topologies/mb/pause"),
    ("POST", "/v1/modules/key-pairs/topologies/mb/checkpoint"),
    ("POST", "/v1/modules/key-pairs/topologies/mb/rollback"),
    ("GET", "/nothing-here"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7410", "", "[::1", "a b"],
)
def test_other_hosts_are_refused(client, method, path, host):
    """A name that was rebound to this address is refused on every route."""
    answer = client.request(method, path, headers={"host": host}, json={"v": 1})
    assert (answer.status_code, answer.json()["code"]) == (403, "E-HOST")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:7410", "LOCALHOST", "[::1]:7410"])
def test_loopback_names_pass(client, host):
    """All names of this machine work, with and without port."""
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_a_host_can_be_allowed():
    """A name given at start is a name of the service."""
    application = create_app(FakeApp(), settings=ServerSettings(hosts=("atoll.internal",)))
    with TestClient(application, base_url="http://Atoll.Internal:80") as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://[", "file://"]
)
def test_other_origins_are_refused(client, method, path, origin):
    """A page of another site, or of another port of this machine, is refused."""
    answer = client.request(method, path, headers={"origin": origin}, json={"v": 1})
    assert (answer.status_code, answer.json()["code"]) == (403, "E-ORIGIN")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "same-origin, none"])
def test_what_a_page_embeds_is_refused(client, site):
    """An image or a script of another page sends no origin, but the browser says what it is."""
    path = "/v1/modules/key-pairs/pstates/global_sum/subscribe"
    for headers in (
        {"sec-fetch-site": site},
        {"sec-fetch-site": site, "sec-fetch-mode": "navigate"},
    ):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "E-ORIGIN")


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_own_page_and_a_typed_address_pass(client, site):
    """As browsers say it."""
    assert client.get("/v1/modules", headers={"sec-fetch-site": site}).status_code == 200


def test_a_link_leads_to_the_page_and_to_nothing_else(client):
    """Following it from another site is no attack: the page itself shows nothing."""
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert client.get("/", headers=link).status_code != 403
    assert client.get("/v1/modules", headers=link).status_code == 403
    assert client.get("/", headers={**link, "sec-fetch-dest": "iframe"}).status_code == 403


def test_the_own_origin_passes(client):
    """A page that the service itself serves may call it."""
    headers = {"origin": "http://127.0.0.1:7410"}
    assert client.post(RECORDS, json={"v": 1}, headers=headers).status_code == 200


@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[0] == "POST"])
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_writes_need_a_telling_content_type(client, app, method, path, kind):
    """What a page can post without asking first is refused."""
    answer = client.request(method, path, headers={"content-type": kind}, content=b'{"v": 1}')
    assert (answer.status_code, answer.json()["code"]) == (415, "E-MEDIA-TYPE")
    assert app.topology("mb").state == "running"
    assert app.depot("numbers").rows == []


def test_compressed_bodies_are_refused(client):
    """A small body that unpacks into a large one is not read at all."""
    answer = client.post(RECORDS, json={"v": 1}, headers={"content-encoding": "gzip"})
    assert answer.status_code == 415


def test_announced_large_bodies_are_refused(client, app):
    """413 by the announced length alone."""
    answer = client.post(RECORDS, json=[{"v": 1}] * 2_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "E-TOO-LARGE")
    assert "x-ndjson" in answer.json()["hint"]
    assert app.depot("numbers").rows == []


def test_an_absurd_length_is_too_large(client):
    """A length of a thousand digits is refused, not computed with."""
    headers = {"content-length": "9" * 1_000, "content-type": "application/json"}
    assert client.post(RECORDS, headers=headers, content=b"{}").status_code == 413


@pytest.mark.parametrize("path", [RECORDS, "/v1/modules/key-pairs/pstates/global_sum/select"])
def test_unannounced_large_bodies_are_refused(client, app, path):
    """413 while counting, for bodies sent in chunks."""
    headers = {"content-type": "application/json"}
    answer = client.post(path, content=iter([b" " * 4_000] * 5), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "E-TOO-LARGE")
    assert app.depot("numbers").rows == []


def test_no_cors(client):
    """The question of a browser whether another site may call is never answered with a yes."""
    headers = {"access-control-request-method": "POST"}
    answer = client.options(RECORDS, headers=headers)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/healthz", "/nothing-here", "/v1/modules/x"])
def test_every_answer_is_hardened(client, path):
    """Also errors: no sniffing, no framing, no caching, and an id to ask for."""
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert len(headers["x-request-id"]) == 16


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:80", "127.0.0.1"),
        ("LocalHost.", "localhost"),
        ("[::1]", "[::1]"),
        ("[::1]:5", "[::1]"),
        ("[::1]x", ""),
        ("localhost:", ""),
        ("localhost:80:90", ""),
        ("localhost:8o", ""),
    ],
)
def test_host_names(host, name):
    """The name is what stands before the port; what is malformed has none."""
    assert _host_name(host) == name


def test_origins_include_the_port():
    """Scheme, name and port must all be the service's."""
    assert _same_origin("http://localhost:1", "localhost:1")
    assert not _same_origin("http://localhost", "localhost:1")
    assert not _same_origin("ftp://localhost:1", "localhost:1")
