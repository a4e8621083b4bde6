"""``atoll token``, the tokens that commands send, and what a run refuses."""

import json

import pytest
from fakes import FakeApp

from atoll.access.audit import read_audit
from atoll.access.authority import Authority
from atoll.cli.credentials import token_headers
from atoll.cli.protecting import protect
from atoll.errors import UsageError
from atoll.server import create_app


def test_tokens_live(atoll, tmp_path):
    """Made, listed, renewed, revoked; the secret is told once and stands nowhere else."""
    root = ("--root", str(tmp_path / "root"))
    made = atoll("token", "create", "ann", "--role", "operator", "--module", "shop", *root)
    assert made.code == 0
    secret = made.out.strip().split("_")[2]
    assert "operator of shop" in made.err
    atoll("token", "rotate", "ann", *root)
    listed = json.loads(atoll("token", "list", "-o", "json", *root).out)
    assert [(each["name"], each["modules"], each["state"]) for each in listed] == [
        ("ann", ["shop"], "taken")
    ] * 2
    assert secret not in atoll("token", "list", *root).out
    atoll("token", "revoke", "ann", *root)
    listed = json.loads(atoll("token", "list", "-o", "json", *root).out)
    assert {each["state"] for each in listed} == {"revoked"}
    actions = [each["action"] for each in read_audit(tmp_path / "root", 9)]
    assert actions == [
        "atoll token revoke ann",
        "atoll token rotate ann",
        "atoll token create ann --role operator",
    ]
    files = [file for file in (tmp_path / "root").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if secret.encode() in file.read_bytes()]


def test_wrong_words_are_told(atoll, tmp_path):
    """A role or a length of time that there is not, a name that has one already, or none."""
    root = ("--root", str(tmp_path))
    assert atoll("token", "create", "ann", "--role", "king", *root).code == 2
    wrong = atoll("token", "create", "ann", "--role", "viewer", "--expires", "soon", *root)
    assert "--expires cannot be" in wrong.err
    assert atoll("token", "create", "ann", "--role", "viewer", *root).code == 0
    assert "already" in atoll("token", "create", "ann", "--role", "viewer", *root).err
    assert "there is no token" in atoll("token", "revoke", "bob", *root).err
    assert "asks nobody" in atoll("token", "list", "--root", str(tmp_path / "x")).err


def test_commands_send_a_token(atoll, url, serve_instead, tmp_path, monkeypatch):
    """From the environment or a file; without one they say what to do."""
    made = atoll("token", "create", "ann", "--role", "viewer", "--root", str(tmp_path))
    serve_instead(create_app(FakeApp(), authority=Authority.of(tmp_path)))
    refused = atoll("status")
    assert refused.code == 1
    assert "E-UNAUTHENTICATED" in refused.err
    monkeypatch.setenv("ATOLL_TOKEN", made.out)
    assert atoll("status").code == 0
    assert "E-FORBIDDEN" in atoll("pause", "key-pairs", "mb").err
    monkeypatch.delenv("ATOLL_TOKEN")
    file = tmp_path / "token"
    file.write_text(made.out)
    monkeypatch.setenv("ATOLL_TOKEN_FILE", str(file))
    file.chmod(0o644)
    assert "others than its owner" in atoll("status").err
    file.chmod(0o600)
    assert atoll("status").code == 0


def test_a_token_goes_nowhere_unprotected():
    """Not over http to another machine; to this one, and over https, it does."""
    environment = {"ATOLL_TOKEN": "atoll_x"}
    for url in (
        "http://127.0.0.1:1",
        "http://localhost",
        "http://[::1]:1",
        "https://atoll.example",
    ):
        assert token_headers(url, environment) == {"authorization": "Bearer atoll_x"}
    for url in ("http://atoll.example", "http://10.0.0.1:7410", "http://127.0.0.1.example"):
        with pytest.raises(UsageError, match="not sent over http"):
            token_headers(url, environment)
    assert token_headers("http://atoll.example", {}) == {}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "atoll.example"])
def test_where_others_reach_it_nothing_starts_unprotected(atoll, tmp_path, host):
    """Neither without tokens nor without TLS or a proxy that speaks it."""
    with pytest.raises(UsageError, match="there are no tokens"):
        protect(host, tmp_path, None, ["10.0.0.5"])
    atoll("token", "create", "ann", "--role", "viewer", "--root", str(tmp_path))
    with pytest.raises(UsageError, match="readable by all"):
        protect(host, tmp_path, None, None)
    assert protect(host, tmp_path, None, ["10.0.0.5"]).proxies == ("10.0.0.5/32",)
    with pytest.raises(UsageError, match="no address"):
        protect(host, tmp_path, None, ["proxy"])


def test_a_run_refuses_at_once(atoll, tmp_path):
    """Before Spark starts, and before anything listens."""
    refused = atoll("run", "--host", "0.0.0.0", "--port", "0", "--root", str(tmp_path / "root"))
    assert refused.code == 1
    assert "atoll token create" in refused.err


def test_on_this_machine_nothing_is_needed(tmp_path):
    """As long as there are no tokens."""
    for host in ("127.0.0.1", "localhost", "::1"):
        assert not protect(host, tmp_path, None, None).authority.required


def test_audit_shows_who_did_what(atoll, url, serve_instead, tmp_path):
    """As a table or as JSON; where nobody is asked, that somebody here did it."""
    serve_instead(create_app(FakeApp(), audit_root=tmp_path))
    assert atoll("pause", "key-pairs", "mb").code == 0
    shown = atoll("audit")
    assert "anybody on this machine" in shown.out
    assert "POST /v1/modules/key-pairs/topologies/mb/pause" in shown.out
    (change,) = json.loads(atoll("audit", "-o", "json", "--limit", "5").out)
    assert change["outcome"] == "done"
    assert json.loads(atoll("audit", "-o", "json", "--before", change["at"]).out) == []
