"""Sessions of browsers: a token for a cookie, and who else may use it."""

import pytest
from starlette.testclient import TestClient

PAUSE = "/v1/modules/shop/topologies/mb/pause"


@pytest.fixture
def page(client, tokens):
    """What a page does: log in; what the service told it."""

    def log_in(role="operator"):
        answer = client.post("/v1/session", json={"token": tokens[role]})
        assert answer.status_code == 200
        return answer.json()

    return log_in


def test_a_session_reads_and_changes(client, app, page):
    """With its cookie alone it reads; with what its page can read besides it changes."""
    told = page()
    assert (told["name"], told["role"], told["read_only"]) == ("operator", "operator", False)
    assert client.get("/v1/session").json()["csrf"] == told["csrf"]
    assert client.get("/v1/modules").status_code == 200
    assert client.post(PAUSE, json={}, headers={"x-atoll-csrf": told["csrf"]}).status_code == 200
    assert app.topology("mb").state == "paused"


@pytest.mark.parametrize("sent", [None, "", "x", "ä".encode()])
def test_a_cookie_alone_changes_nothing(client, app, page, sent):
    """What another site's page could make a browser send is not enough."""
    page()
    headers = {} if sent is None else {"x-atoll-csrf": sent}
    answer = client.post(PAUSE, json={}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "E-FORBIDDEN")
    assert app.topology("mb").state == "running"


def test_another_sessions_word_is_none(client, page, tokens):
    """What one session's page sends with a change is worth nothing with another's cookie."""
    first = page()
    page("admin")
    answer = client.post(PAUSE, json={}, headers={"x-atoll-csrf": first["csrf"]})
    assert answer.status_code == 403


def test_the_cookie_is_kept_from_others(client, tokens):
    """No script reads it, no other site's page sends it; under TLS nobody on the way sees it."""
    set_cookie = client.post("/v1/session", json={"token": tokens["viewer"]}).headers["set-cookie"]
    parts = {part.strip().lower() for part in set_cookie.split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert "secure" not in parts
    assert tokens["viewer"] not in set_cookie
    with TestClient(client.app, base_url="https://127.0.0.1:7410") as secure:
        answer = secure.post("/v1/session", json={"token": tokens["viewer"]})
        assert answer.headers["set-cookie"].startswith("__Host-atoll=")
        assert "; Secure" in answer.headers["set-cookie"]
        assert secure.get("/v1/modules").status_code == 200


def test_logging_out_is_for_good(client, page):
    """The cookie is worth nothing then, also where it was copied to."""
    told = page()
    copied = client.cookies["atoll_session"]
    assert client.delete("/v1/session").status_code == 403
    answer = client.delete("/v1/session", headers={"x-atoll-csrf": told["csrf"]})
    assert answer.json()["role"] is None
    assert "atoll_session" not in client.cookies
    assert client.get("/v1/modules").status_code == 401
    headers = {"cookie": f"atoll_session={copied}"}
    assert client.get("/v1/modules", headers=headers).status_code == 401
    assert client.get("/v1/session", headers=headers).json()["role"] is None


def test_logging_in_again_needs_no_old_session(client, page, tokens):
    """Whatever the browser still holds."""
    page()
    page("viewer")
    assert client.get("/v1/session").json()["read_only"] is True


@pytest.mark.parametrize("kind", ["expired", "revoked"])
def test_what_has_ended_opens_no_session(client, tokens, kind):
    """401, and no cookie."""
    answer = client.post("/v1/session", json={"token": tokens[kind]})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_guessing_at_the_login_is_throttled(client):
    """As it is everywhere."""
    statuses = {client.post("/v1/session", json={"token": "x"}).status_code for _ in range(12)}
    assert statuses == {401, 429}


def test_who_am_i(client, tokens, bearer):
    """Nobody; with a token, who it is for."""
    assert client.get("/v1/session").json() == {
        "authentication": True,
        "name": None,
        "role": None,
        "read_only": True,
    }
    told = client.get("/v1/session", headers=bearer(tokens["shop"])).json()
    assert (told["how"], told["modules"]) == ("token", ["shop"])


def test_a_service_that_asks_nobody(app):
    """Says so, and that all may be done."""
    from atoll.server import create_app

    with TestClient(create_app(app), base_url="http://127.0.0.1:7410") as client:
        told = client.get("/v1/session").json()
        assert (told["authentication"], told["role"], told["read_only"]) == (False, "admin", False)
        assert client.post("/v1/session", json={"token": "x"}).status_code == 400
        assert client.delete("/v1/session").status_code == 401
