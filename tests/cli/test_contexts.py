"""Services by name: what is kept, who can read it, and which of them a command asks."""

from __future__ import annotations

import io
import json
import stat

import pytest

from atoll.client.contexts import Context, Contexts, contexts_file
from atoll.errors import NotFoundError, UsageError

DEAD = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """A folder of settings of its own."""
    monkeypatch.setenv("ATOLL_CONFIG", str(tmp_path / "settings"))
    for name in ("ATOLL_URL", "ATOLL_CONTEXT", "ATOLL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "settings" / "contexts.json"


def test_kept_used_listed_and_forgotten(atoll, url, file, monkeypatch):
    """The first one is used; another one on demand; none of them shows a token."""
    monkeypatch.delenv("ATOLL_URL")
    assert atoll("context", "add", "here", url).code == 0
    assert atoll("context", "add", "dead", DEAD, "--token-env", "SECRET").code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert atoll("status", "-o", "json").code == 0
    assert atoll("status", "--context", "here").code == 0
    listed = json.loads(atoll("context", "list", "-o", "json").out)
    assert [(each["name"], each["used"], each["token"]) for each in listed] == [
        ("dead", False, "environment SECRET"),
        ("here", True, "none"),
    ]
    monkeypatch.setenv("SECRET", "s3cret")
    assert atoll("context", "use", "dead").code == 0
    unreachable = atoll("status")
    assert unreachable.code == 1
    assert "E-UNREACHABLE" in unreachable.err
    assert "s3cret" not in unreachable.err + atoll("context", "list").out
    assert atoll("status", "--url", url).code == 0
    monkeypatch.setenv("ATOLL_URL", url)
    assert atoll("status").code == 0
    monkeypatch.setenv("ATOLL_CONTEXT", "dead")
    assert atoll("status").code == 1
    assert atoll("context", "remove", "dead").code == 0
    assert "no context 'dead'" in atoll("status").err


def test_mistakes(atoll, url, file):
    """Both ways at once, names that are none, tokens that are nowhere, files that others read."""
    assert "exclude each other" in atoll("status", "--url", url, "--context", "a").err
    assert "no name of a context" in atoll("context", "add", "a b", url).err
    assert "no address" in atoll("context", "add", "a", "ftp://x").err
    twice = atoll("context", "add", "a", url, "--token-env", "A", "--token-file", "b")
    assert "one token" in twice.err
    atoll("context", "add", "a", url, "--token-env", "NOWHERE")
    assert "no NOWHERE" in atoll("status", "--context", "a").err
    file.chmod(0o644)
    assert "others than its owner" in atoll("context", "list").err
    file.chmod(0o600)
    file.write_text("{}[")
    assert "holds no contexts" in atoll("context", "list").err


def test_a_token_goes_to_its_own_address_alone(atoll, app, url, monkeypatch, tmp_path):
    """As Authorization: Bearer; ATOLL_TOKEN to all others."""
    seen = []
    from atoll.client import wire

    answered = wire.data_of

    def watched(response, address):
        seen.append(response.request.headers.get("authorization"))
        return answered(response, address)

    monkeypatch.setattr(wire, "data_of", watched)
    secret = tmp_path / "token"
    secret.write_text("from-file\n")
    secret.chmod(0o600)
    monkeypatch.setenv("ATOLL_URL", url)
    monkeypatch.setattr("sys.stdin", io.StringIO("from-stdin\n"))
    assert atoll("context", "add", "kept", url, "--token-stdin").code == 0
    atoll("context", "add", "filed", url, "--token-file", secret)
    atoll("status", "--context", "kept")
    atoll("status", "--context", "filed")
    atoll("status")
    monkeypatch.setenv("ATOLL_TOKEN", "from-environment")
    atoll("status")
    atoll("status", "--url", url)
    assert seen == [
        "Bearer from-stdin",
        "Bearer from-file",
        None,
        "Bearer from-environment",
        "Bearer from-environment",
    ]


def test_where_they_are_kept(tmp_path):
    """Where the environment says, else in the usual folder."""
    assert contexts_file({"ATOLL_CONFIG": "/a"}).as_posix() == "/a/contexts.json"
    assert contexts_file({"XDG_CONFIG_HOME": "/x"}).as_posix() == "/x/atoll/contexts.json"
    assert contexts_file({"XDG_CONFIG_HOME": "rel"}).parts[-3:] == (
        ".config",
        "atoll",
        "contexts.json",
    )
    contexts = Contexts(tmp_path / "c.json")
    with pytest.raises(NotFoundError):
        contexts.use("no")
    empty = tmp_path / "empty"
    empty.touch(mode=0o600)
    with pytest.raises(UsageError, match="empty"):
        Context("http://a", token_file=str(empty)).secret()
    with pytest.raises(UsageError, match="no file of a token"):
        Context("http://a", token_file=str(tmp_path / "no")).secret()


def test_the_version_as_an_option(atoll):
    """As with most commands."""
    assert atoll("--version").out == atoll("version").out


def test_a_check_of_the_status(atoll, app, url):
    """Exit code 1 and what is not well; 0 while all is."""
    assert atoll("status", "--check").code == 0
    topology = app.topology("mb")
    topology.state = "failed"
    failed = atoll("status", "--check", "-o", "json")
    assert failed.code == 1
    assert "key-pairs/mb has failed" in failed.err
    assert atoll("status").code == 0
