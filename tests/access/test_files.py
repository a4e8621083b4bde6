"""Tokens and sessions in files: for their owner only, seen at once when they change, never lost."""

import os
import stat

import msgspec
import pytest

from atoll.access.authority import Authority, Presented
from atoll.access.files import access_folder, write_private
from atoll.access.roles import Role, local_caller
from atoll.access.sessions import Sessions
from atoll.access.token_file import LiveTokens, TokenFile
from atoll.access.tokens import created, revoked
from atoll.errors import StorageError, ThrottledError, UnauthenticatedError, UsageError


def add(file, name="ann", role=Role.OPERATOR, **more):
    """Make a token in a file."""
    return file.change(lambda kept: created(kept, name, role, 0, **more))


@pytest.fixture
def file(tmp_path):
    """The file of a root that is not there yet."""
    return TokenFile.of(tmp_path / "root")


def test_files_are_for_their_owner(tmp_path, file):
    """0600 in a folder of 0700, whatever the umask."""
    before = os.umask(0)
    try:
        add(file)
        sessions = Sessions(access_folder(tmp_path / "root"))
        sessions.end(sessions.open(local_caller(), 1), 1)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.rglob("*")}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_use_is_refused(file, mode):
    """To read it or to write it."""
    add(file)
    file.path.chmod(mode)
    with pytest.raises(UsageError, match="others than its owner"):
        LiveTokens(file)


@pytest.mark.parametrize(
    "text", ["", "nonsense", '{"version": 1}', '{"version": 1, "tokens": [{"id": "x"}]}']
)
def test_what_holds_no_tokens_is_refused(file, text):
    """Never taken for an empty list, which would lock everybody out, or nobody."""
    add(file)
    write_private(file.path, text.encode())
    with pytest.raises(UsageError, match="holds no tokens"):
        LiveTokens(file)


def test_another_version_is_refused(file):
    """A later Atoll may have meant something else."""
    add(file)
    write_private(file.path, b'{"version": 2, "tokens": []}')
    with pytest.raises(UsageError, match="another version"):
        file.read()


def test_a_running_service_sees_changes(file):
    """The first token, further ones, and revoked ones, without a restart."""
    live = LiveTokens(file)
    assert live.present() is None
    add(file)
    assert [each.name for each in live.present()] == ["ann"]
    add(file, "bob")
    assert [each.name for each in live.present()] == ["ann", "bob"]
    file.change(lambda kept: (revoked(kept, "ann", 1), None))
    assert [each.revoked_ms for each in live.present()] == [1, None]


@pytest.mark.parametrize("harm", ["gone", "nonsense", "open"])
def test_tokens_that_go_away_let_nobody_in(file, harm):
    """Asking nobody is only for a service that never had any."""
    add(file)
    live = LiveTokens(file)
    if harm == "gone":
        file.path.unlink()
    elif harm == "nonsense":
        write_private(file.path, b"x")
    else:
        file.path.chmod(0o644)
    for _ in range(2):
        with pytest.raises(StorageError):
            live.present()


def test_a_named_file_must_be_there(file):
    """Else a name with a mistake would open the service."""
    with pytest.raises(UsageError, match="no file of tokens"):
        LiveTokens(file, required=True)


@pytest.fixture
def authority(tmp_path, file):
    """Over the file, at a time that stands still."""
    return Authority(
        LiveTokens(file), Sessions(tmp_path / "keys"), now_ms=lambda: 1_000, clock=lambda: 0.0
    )


def test_nobody_is_asked_without_tokens(authority):
    """As long as there are none."""
    assert not authority.required
    assert authority.caller(Presented("a", bearer="x")).how == "open"


def test_who_shows_nothing_is_nobody(authority, file):
    """As soon as there are some."""
    add(file)
    assert authority.required
    assert authority.caller(Presented("a")) is None


def test_wrong_tokens_are_throttled_but_keep_out_nobody_else(authority, file):
    """Ten unknown ones from an address; one that is known goes on there."""
    text = add(file)
    for _ in range(10):
        with pytest.raises(UnauthenticatedError):
            authority.caller(Presented("a", bearer="wrong"))
    with pytest.raises(ThrottledError) as caught:
        authority.caller(Presented("a", bearer="wrong"))
    assert caught.value.context["retry_after_seconds"] == 60
    assert authority.caller(Presented("a", bearer=text)).name == "ann"
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    for _ in range(10):
        with pytest.raises(UnauthenticatedError):
            authority.caller(Presented("a", bearer=wrong))
    with pytest.raises(ThrottledError):  # else a right guess would still get in
        authority.caller(Presented("a", bearer=text))
    assert authority.caller(Presented("b", bearer=text)).name == "ann"


def test_a_session_is_its_token(authority, file):
    """The same name, role and modules; it ends with the token, and at the latest when that does."""
    text = add(file, modules=["shop"], lives_ms=5_000)
    session = authority.log_in(Presented("a", bearer=text))
    assert session.expires_ms == 5_000
    caller = authority.caller(Presented("a", session=session.text))
    assert (caller.name, caller.how, caller.modules) == ("ann", "session", frozenset({"shop"}))
    file.change(lambda kept: (revoked(kept, "ann", 1), None))
    with pytest.raises(UnauthenticatedError, match="ended"):
        authority.caller(Presented("a", session=session.text))


def test_a_session_that_ended_stays_so(authority, file, tmp_path):
    """For another process, and after a restart."""
    session = authority.log_in(Presented("a", bearer=add(file)))
    other = Sessions(tmp_path / "keys")
    assert other.read(session.text, 1_000).caller == session.caller
    authority.sessions.end(session, 1_000)
    for sessions in (authority.sessions, other, Sessions(tmp_path / "keys")):
        with pytest.raises(UnauthenticatedError, match="ended"):
            sessions.read(session.text, 1_000)


def test_forged_sessions_are_none(authority, file, tmp_path):
    """Each character counts; a key of another service signs nothing here."""
    session = authority.log_in(Presented("a", bearer=add(file, role=Role.VIEWER)))
    body, _, mac = session.text.partition(".")
    other = Sessions(tmp_path / "others").open(session.caller, 1_000)
    swapped = body[:-2] + ("AA" if body[-2:] != "AA" else "BB")
    for text in ("", ".", body, f"{body}.", f"{swapped}.{mac}", other.text, f"{body}.{mac}x", "ä."):
        with pytest.raises(UnauthenticatedError, match="not known"):
            authority.sessions.read(text, 1_000)
    with pytest.raises(UnauthenticatedError, match="ended"):
        authority.sessions.read(session.text, session.expires_ms)


@pytest.mark.parametrize("key", [b"", b"secret", b"x" * 64, b"\0" * 32])
def test_weak_keys_are_refused(tmp_path, key):
    """A key that could be guessed signs no session."""
    write_private(tmp_path / "session.key", key)
    with pytest.raises(UsageError, match="too weak"):
        Sessions(tmp_path)


def test_no_session_without_tokens(authority):
    """There is nothing to exchange."""
    with pytest.raises(UsageError, match="asks nobody"):
        authority.log_in(Presented("a", bearer="x"))


def test_the_file_can_be_read_by_a_person(file):
    """It is JSON with one member a line."""
    add(file)
    kept = msgspec.json.decode(file.path.read_bytes())
    assert kept["tokens"][0]["name"] == "ann"
    assert b"\n" in file.path.read_bytes()
