"""Sessions: what a browser holds in place of a token.

A session is a signed text, so that it survives a restart and is known to every process that serves
the same root. It names who holds it; the token it was made of is looked up for every request, so
it ends with that. Ended sessions are kept in a file until they would have expired.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from pathlib import Path

import msgspec

from atoll.access.files import locked, read_private, write_private
from atoll.access.roles import Caller, Role
from atoll.errors import UnauthenticatedError, UsageError

__all__ = ["Session", "Sessions"]

SESSION_MS = 12 * 3_600_000
"""So long a session lasts at most."""

_KEY_BYTES = 32
_CHARACTERS_MAX = 4_000
_HINT = "log in again"


class _Said(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is signed."""

    id: str
    name: str
    role: Role
    expires_ms: int
    modules: tuple[str, ...] | None
    token: str | None


class Session(msgspec.Struct, frozen=True):
    """A session.

    Attributes:
        text: What the browser holds.
        csrf: What its page sends besides with every change.
        caller: Who it is.
        expires_ms: When it ends.
        id: Its name.
    """

    text: str
    csrf: str
    caller: Caller
    expires_ms: int
    id: str


class Sessions:
    """Makes sessions, reads and ends them.

    Args:
        folder: Where the key and the ended sessions are kept.
    """

    def __init__(self, folder: Path) -> None:
        """Reads the key where there is one; else it is made for the first session.

        Raises:
            UsageError: When the key is too short to be one, or others may read it.
        """
        self._ended_file = folder / "ended-sessions.json"
        self._key_file = folder / "session.key"
        self._key = _checked_key(self._key_file)
        self._ended: dict[str, int] = {}
        self._seen: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def open(self, caller: Caller, now_ms: int, expires_ms: int | None = None) -> Session:
        """A session of somebody, until it expires at the latest."""
        until = min(now_ms + SESSION_MS, expires_ms or now_ms + SESSION_MS)
        modules = None if caller.modules is None else tuple(sorted(caller.modules))
        name = secrets.token_hex(16)
        said = _Said(name, caller.name, caller.role, until, modules, caller.token)
        body = base64.urlsafe_b64encode(msgspec.json.encode(said)).decode().rstrip("=")
        return self._session(said, f"{body}.{self._mac('session', body)}")

    def read(self, text: str, now_ms: int) -> Session:
        """The session that a text is.

        Raises:
            UnauthenticatedError: When it is none, or has ended.
        """
        body, _, mac = text.partition(".")
        right = hmac.compare_digest(mac.encode(), self._mac("session", body).encode())
        if not right or len(text) > _CHARACTERS_MAX:
            raise UnauthenticatedError("the session is not known here", hint=_HINT)
        try:
            data = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            said = msgspec.json.decode(data, type=_Said)
        except (binascii.Error, msgspec.DecodeError):
            raise UnauthenticatedError("the session is not known here", hint=_HINT) from None
        if said.expires_ms <= now_ms or said.id in self._all_ended():
            raise UnauthenticatedError("the session has ended", hint=_HINT)
        return self._session(said, text)

    def end(self, session: Session, now_ms: int) -> None:
        """End it, for all processes and for good."""
        with locked(self._ended_file):
            ended = {**_read(self._ended_file), session.id: session.expires_ms}
            left = {name: until for name, until in ended.items() if until > now_ms}
            write_private(self._ended_file, msgspec.json.encode(left))

    def _all_ended(self) -> dict[str, int]:
        try:
            found = self._ended_file.stat()
        except FileNotFoundError:
            return self._ended
        seen = (found.st_ino, found.st_mtime_ns)
        if seen != self._seen:
            with self._lock:
                self._ended, self._seen = _read(self._ended_file), seen
        return self._ended

    def _session(self, said: _Said, text: str) -> Session:
        modules = None if said.modules is None else frozenset(said.modules)
        caller = Caller(said.name, said.role, "session", modules, said.token)
        return Session(text, self._mac("csrf", said.id), caller, said.expires_ms, said.id)

    def _mac(self, purpose: str, text: str) -> str:
        if self._key is None:
            self._key = _made_key(self._key_file)
        message = f"{purpose}:{text}".encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def _read(path: Path) -> dict[str, int]:
    return msgspec.json.decode(read_private(path) or b"{}", type=dict[str, int])


def _made_key(path: Path) -> bytes:
    with locked(path):
        key = _checked_key(path)
        if key is None:
            key = secrets.token_bytes(_KEY_BYTES)
            write_private(path, key)
    return key


def _checked_key(path: Path) -> bytes | None:
    key = read_private(path)
    if key is not None and (len(key) < _KEY_BYTES or len(set(key)) < _KEY_BYTES // 4):
        raise UsageError(
            f"{path.name} is too weak a key: {_KEY_BYTES} random bytes are needed",
            hint=f"remove {path}: the service makes a good one",
            file=str(path),
        )
    return key
