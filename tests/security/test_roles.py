"""S1 and S2: every route, with every kind of caller, through the gate that stands before it.

What lies behind the gate is not asked here: a mark says that a request got there.
"""

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from starlette.responses import Response

from atoll.access.authority import Authority
from atoll.access.roles import Role
from atoll.access.token_file import TokenFile
from atoll.access.tokens import revoked, rotated
from atoll.errors import NotFoundError
from atoll.server import ServerSettings, create_app, serve
from atoll.server.access.gate import Gate
from atoll.server.access.table import ROWS, Effect, Reach, find_row
from atoll.server.serve import bind

NAMES = {
    "module": "shop",
    "depot": "numbers",
    "pstate": "global_sum",
    "topology": "mb",
    "query": "echo",
    "reference": "of-shop",
    "actor": "a",
    "number": 3,
    "version": "1",
    "name": "page.mjs",
}
ROLES = [str(role) for role in Role]


def address(row, **other):
    """An address that fits a row."""
    return row.template.replace(":path", "").format(**{**NAMES, **other})


class Runtimes:
    """Two runtimes, each a module."""

    def find(self, reference):
        """By name."""
        found = {"of-shop": "shop", "of-other": "other"}.get(reference)
        if found is None:
            raise NotFoundError("there is no runtime")
        return SimpleNamespace(module=found), None

    def apps(self):
        """Their modules are not looked at here."""
        return {}


@pytest.fixture
def ask(application, root, tokens):
    """Ask for a route with some headers; the status, and 299 when the request got through."""
    authority = Authority.of(root)
    context = replace(application.state.context, runtimes=Runtimes())
    gate = Gate(Response(status_code=299), authority, context)

    def asking(method, path, headers=(), **more):
        told = {}

        async def send(message):
            if message["type"] == "http.response.start":
                told.update(status=message["status"], headers=dict(message["headers"]))
            else:
                told["body"] = told.get("body", b"") + message.get("body", b"")

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers],
            "client": ("10.1.1.1", 1),
            "scheme": "http",
            "server": ("127.0.0.1", 7410),
            "root_path": "",
            **more,
        }
        portal.call(gate, scope, receive, send)
        return told

    with start_blocking_portal() as portal:
        yield asking


def with_token(token):
    """The header that carries it."""
    return [("authorization", f"Bearer {token}")]


def test_every_route_has_a_row(application):
    """And every row is a route: nobody adds one without saying who may call it."""
    routes = {(method, each.path) for each in application.state.routes for method in each.methods}
    routes |= {
        (method, each.path)
        for each in application.routes
        for method in getattr(each, "methods", None) or ()
        if method != "HEAD"
    }
    assert routes == {(row.method, row.template) for row in ROWS}
    assert len({(row.method, row.template) for row in ROWS}) == len(ROWS)


def test_rows_are_found_as_routes_are():
    """The row that a request meets is the one of the route that answers it."""
    for row in ROWS:
        found = find_row(row.method, address(row))
        assert found.row == row
        assert find_row("TRACE", address(row)).row is None
        assert row.method in find_row("TRACE", address(row)).methods
    assert find_row("HEAD", "/v1/modules").row.method == "GET"


def test_what_changes_needs_a_role():
    """No route that a viewer may call changes anything but its own session."""
    changing = [row for row in ROWS if row.effect is not Effect.READS]
    assert [row.template for row in changing if row.role in {None, Role.VIEWER}] == [
        "/v1/session",
        "/v1/session",
    ]
    anybody = {row.template for row in ROWS if row.role is None}
    page = {"/", "/favicon.ico", "/page/{version}/{name:path}"}
    assert anybody == {"/healthz", "/readyz", "/v1/session", *page}


def expected(row, role):
    """What a route answers a role, from the table alone."""
    return 299 if row.role is None or Role(role).includes(row.role) else 403


def test_every_route_for_every_role(ask, tokens):
    """All cells of the table."""
    wrong = {}
    for row in ROWS:
        for role in ROLES:
            status = ask(row.method, address(row), with_token(tokens[role]))["status"]
            if status != expected(row, role):
                wrong[row.method, row.template, role] = status
    assert wrong == {}


def bad_headers(tokens):
    """Everything that is no credential."""
    good = tokens["admin"]
    return {
        "nothing": [],
        "empty": [("authorization", "")],
        "no scheme": [("authorization", good)],
        "basic": [("authorization", f"Basic {good}")],
        "no token": [("authorization", "Bearer ")],
        "malformed": with_token("x"),
        "unknown": with_token("atoll_" + "0" * 12 + "_" + "0" * 64),
        "wrong": with_token(good[:-1] + ("0" if good[-1] != "0" else "1")),
        "two": [*with_token(good), *with_token(good)],
        "expired": with_token(tokens["expired"]),
        "revoked": with_token(tokens["revoked"]),
        "unsigned": with_token("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."),
        "cookie": [("cookie", f"atoll_session={good}")],
        "forged cookie": [("cookie", "atoll_session=e30.00")],
        "user": [("x-forwarded-user", "admin"), ("x-remote-user", "admin"), ("from", "admin")],
    }


def test_every_route_without_a_credential(ask, tokens):
    """401 whatever is wrong with it, and what anybody may call goes on."""
    wrong = {}
    for number, row in enumerate(ROWS):
        for kind, headers in bad_headers(tokens).items():
            # Each from an address of its own: else they would be throttled.
            client = (f"10.2.{number}.{len(kind)}", 1)
            told = ask(row.method, address(row), headers, client=client)
            right = 299 if row.role is None else 401
            if told["status"] != right:
                wrong[row.method, row.template, kind] = told["status"]
            elif right == 401:
                assert told["headers"][b"www-authenticate"].startswith(b"Bearer")
    assert wrong == {}


def test_a_credential_is_a_header_only(ask, tokens):
    """Never a parameter of the address, which is kept in histories and logs."""
    for name in ("access_token", "token", "authorization", "user", "doAs"):
        query = f"{name}={tokens['admin']}".encode()
        assert ask("GET", "/v1/modules", query_string=query)["status"] == 401


def test_tokens_for_other_modules(ask, tokens):
    """Of another module nothing is there, in the same words as of none; all at once is refused."""
    wrong = {}
    for row in ROWS:
        other = ask(row.method, address(row, reference="of-other"), with_token(tokens["elsewhere"]))
        own = ask(row.method, address(row), with_token(tokens["shop"]))
        right = {Reach.ALL: (403, 403), Reach.MODULE: (404, 299)}.get(row.reach, (299, 299))
        if (other["status"], own["status"]) != right:
            wrong[row.method, row.template] = (other["status"], own["status"])
    assert wrong == {}
    known = ask("GET", "/v1/modules/shop", with_token(tokens["elsewhere"]))
    unknown = ask("GET", "/v1/modules/xxxx", with_token(tokens["elsewhere"]))
    assert known["body"] == unknown["body"].replace(b"xxxx", b"shop")
    known = ask("GET", "/api/runtimes/of-shop", with_token(tokens["elsewhere"]))
    unknown = ask("GET", "/api/runtimes/of-sxxx", with_token(tokens["elsewhere"]))
    assert json.loads(known["body"])["status"] == json.loads(unknown["body"])["status"] == 404


def test_what_has_no_row_is_closed(ask, tokens):
    """Also for an admin, whatever lies behind the gate; nobody unknown learns what is there."""
    for path in (
        "/nothing",
        "/docs",
        "/v1/modules/",
        "/v1//modules",
        "/V1/modules",
        "/v1/modules/shop/x",
    ):
        assert ask("GET", path, with_token(tokens["admin"]))["status"] == 404
        assert ask("GET", path)["status"] == 401
    told = ask("PUT", "/v1/modules", with_token(tokens["admin"]))
    assert (told["status"], told["headers"][b"allow"]) == (405, b"GET")
    assert ask("PUT", "/v1/modules")["status"] == 401


def test_guessing_is_throttled(ask, tokens):
    """The eleventh try within a minute is not looked at; it says when to come again."""
    statuses = [ask("GET", "/v1/modules", with_token("x"))["status"] for _ in range(10)]
    assert statuses == [401] * 10
    told = ask("GET", "/v1/modules", with_token("x"))
    assert told["status"] == 429
    assert 0 < int(told["headers"][b"retry-after"]) <= 60
    assert json.loads(told["body"])["code"] == "E-THROTTLED"
    assert ask("GET", "/v1/modules", with_token(tokens["viewer"]))["status"] == 299
    assert ask("GET", "/healthz", with_token("x"))["status"] == 299


def test_lists_hold_what_may_be_seen(client, tokens, bearer):
    """Modules and states of others are left out, and their names in hints too."""
    for path in ("/v1/modules", "/v1/status"):
        assert "shop" in client.get(path, headers=bearer(tokens["shop"])).text
        assert "shop" not in client.get(path, headers=bearer(tokens["elsewhere"])).text
    assert "shop" not in client.get("/v1/modules/x", headers=bearer(tokens["elsewhere"])).text


def test_what_a_page_follows_is_what_may_be_seen(application, tokens, bearer):
    """The stream of all modules holds those that its token is for; it ends with the token."""
    every = {"modules": {"shop": {}, "other": {}}}
    application.state.looking = SimpleNamespace(look=lambda: every)
    with serve(application, bind("127.0.0.1", 0)) as address:

        def followed(token):
            return httpx.stream("GET", f"{address.url}/v1/live", headers=bearer(token), timeout=60)

        for name, seen in (("shop", ["shop"]), ("elsewhere", []), ("viewer", ["shop", "other"])):
            with followed(tokens[name]) as answer:
                data = next(each for each in answer.iter_lines() if each.startswith("data: "))
                assert list(json.loads(data[6:])["modules"]) == seen


def test_a_stream_ends_with_its_token(app, root, tokens, bearer):
    """A revoked token hears nothing more, and needs not be waited for until it comes back."""
    settings = ServerSettings(heartbeat_seconds=0.1)
    application = create_app(app, settings=settings, authority=Authority.of(root))
    with serve(application, bind("127.0.0.1", 0)) as address:
        url = f"{address.url}/v1/live"
        with httpx.stream("GET", url, headers=bearer(tokens["viewer"]), timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            TokenFile.of(root).change(lambda kept: (revoked(kept, "viewer", 9), None))
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)


def test_those_who_watch_learn_no_names(client, app, tokens, bearer):
    """Without a token: whether it runs. With one: why it does not, of what it may see."""
    app.failure = NotFoundError("the secret reason")
    for path in ("/healthz", "/readyz"):
        assert client.get(path).status_code == 503
        assert "secret" not in client.get(path).text
        assert "secret" in client.get(path, headers=bearer(tokens["viewer"])).text
        told = client.get(path, headers=bearer(tokens["elsewhere"]))
        assert (told.status_code, "secret" in told.text) == (200, False)


def test_a_rotated_token_works_at_once(client, root, tokens, bearer):
    """Without a restart; and the old one goes on for its overlap."""
    now = time.time_ns() // 1_000_000
    new = TokenFile.of(root).change(lambda kept: rotated(kept, "viewer", now, 60_000))
    for token in (tokens["viewer"], new):
        assert client.get("/v1/modules", headers=bearer(token)).status_code == 200
