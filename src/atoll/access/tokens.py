"""Tokens: secrets that stand for a name, a role and modules. Pure: no file, no clock.

A token reads ``atoll_<id>_<secret>``: the id finds it in the file, the secret proves it. The secret
has 256 random bits, so one round of SHA-256 hides it as well as any slow hash would, and it is
compared in constant time. Only whoever proves the secret learns that a token has ended; for
everybody else all that does not work looks the same.

Rotation gives the same name a second token and lets the first end after an overlap.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence

import msgspec

from atoll.access.roles import Caller, Role
from atoll.errors import NotFoundError, UnauthenticatedError, UsageError
from atoll.names import check_name

__all__ = ["Token", "checked_tokens", "created", "known_id", "proved", "revoked", "rotated"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}\Z")
"""What a token may be called: also an address of mail."""

PREFIX = "atoll_"
"""What every token begins with."""

_TOKEN = re.compile(rf"{PREFIX}([0-9a-f]{{12}})_([0-9a-f]{{64}})\Z")
_ID_BYTES = 6
_SECRET_BYTES = 32
_TOKEN_CHARACTERS = len(PREFIX) + 2 * _ID_BYTES + 1 + 2 * _SECRET_BYTES
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_HINT = "have a token made on the machine of the service: atoll token create NAME --role ROLE"


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as it is kept: what it may, and the hash of its secret."""

    id: str
    name: str
    role: Role
    sha256: str
    created_ms: int
    expires_ms: int | None = None
    modules: tuple[str, ...] | None = None
    revoked_ms: int | None = None

    def ended(self, now_ms: int) -> str | None:
        """Why it is not taken any more; None while it is."""
        if self.revoked_ms is not None:
            return "revoked"
        if self.expires_ms is not None and self.expires_ms <= now_ms:
            return "expired"
        return None

    def caller(self, how: str = "token") -> Caller:
        """Who calls with it."""
        modules = None if self.modules is None else frozenset(self.modules)
        return Caller(self.name, self.role, how, modules, self.id)


def checked_tokens(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens of a file, when they can be tokens.

    Raises:
        UsageError: When two have one id, or one could never be proved.
    """
    for each in tokens:
        if not _DIGEST.match(each.sha256) or not NAME.match(each.name):
            raise UsageError(
                f"token {each.id!r} was not made by Atoll",
                hint="make it again: atoll token create NAME --role ROLE",
            )
    if len({each.id for each in tokens}) < len(tokens):
        raise UsageError(
            "two tokens have one id", hint="revoke both, and make them again: atoll token create"
        )
    return tuple(tokens)


def created(
    tokens: Iterable[Token],
    name: str,
    role: Role,
    now_ms: int,
    *,
    lives_ms: int | None = None,
    modules: Sequence[str] | None = None,
) -> tuple[tuple[Token, ...], str]:
    """The tokens with one more, and its text, which is told once and never kept.

    Raises:
        UsageError: When the name cannot be one, or has a token that is taken.
    """
    tokens = tuple(tokens)
    if not NAME.match(name):
        raise UsageError(
            f"{name[:80]!r} cannot name a token",
            hint="use 1 to 63 letters, digits and _ . @ -, beginning with a letter or digit",
        )
    if any(each.name == name and each.ended(now_ms) is None for each in tokens):
        raise UsageError(
            f"{name!r} has a token already",
            hint=f"give it another one with: atoll token rotate {name}",
        )
    for module in modules or ():
        check_name(module, "module", "--module")
    scope = None if modules is None else tuple(dict.fromkeys(modules))
    return _with_one(tokens, name, role, now_ms, lives_ms, scope)


def rotated(
    tokens: Iterable[Token], name: str, now_ms: int, overlap_ms: int, lives_ms: int | None = None
) -> tuple[tuple[Token, ...], str]:
    """The tokens with another of the same name, role and modules; the old end after an overlap.

    Args:
        tokens: All.
        name: Whose is made anew.
        now_ms: The time.
        overlap_ms: How long the old one is still taken.
        lives_ms: How long the new one is taken; as long as the old one was without.

    Raises:
        NotFoundError: When no token of that name is taken.
    """
    tokens = tuple(tokens)
    (newest, *_) = sorted(_taken(tokens, name, now_ms), key=lambda each: -each.created_ms)
    if lives_ms is None and newest.expires_ms is not None:
        lives_ms = newest.expires_ms - newest.created_ms
    until = now_ms + overlap_ms
    ending = tuple(
        msgspec.structs.replace(each, expires_ms=min(until, each.expires_ms or until))
        if each.name == name and each.ended(now_ms) is None
        else each
        for each in tokens
    )
    return _with_one(ending, name, newest.role, now_ms, lives_ms, newest.modules)


def revoked(tokens: Iterable[Token], name: str, now_ms: int) -> tuple[Token, ...]:
    """The tokens; those of a name, or the one of an id, are not taken any more.

    Raises:
        NotFoundError: When there is none that is taken.
    """
    tokens = tuple(tokens)
    gone = {each.id for each in _taken(tokens, name, now_ms)}
    return tuple(
        msgspec.structs.replace(each, revoked_ms=now_ms) if each.id in gone else each
        for each in tokens
    )


def known_id(tokens: Iterable[Token], text: str) -> str | None:
    """The id that a text begins with, when there is a token of that id."""
    match = _TOKEN.match(text)
    found = match is not None and any(each.id == match[1] for each in tokens)
    return match[1] if match is not None and found else None


def proved(tokens: Iterable[Token], text: str, now_ms: int) -> Token:
    """The token that a text proves.

    Raises:
        UnauthenticatedError: When it proves none, or one that has ended.
    """
    match = _TOKEN.match(text) if len(text) == _TOKEN_CHARACTERS else None
    name, secret = (match[1], match[2]) if match is not None else ("", "")
    token = next((each for each in tokens if each.id == name), None)
    # What is unknown takes as long as what is known.
    expected = token.sha256 if token is not None else "0" * 64
    right = hmac.compare_digest(_digest(secret), expected)
    if token is None or not right:
        raise UnauthenticatedError("the token is not known here", hint=_HINT)
    ended = token.ended(now_ms)
    if ended is not None:
        raise UnauthenticatedError(
            f"the token was {ended}" if ended == "revoked" else "the token has expired", hint=_HINT
        )
    return token


def _taken(tokens: Iterable[Token], name: str, now_ms: int) -> list[Token]:
    found = [each for each in tokens if name in (each.name, each.id)]
    taken = [each for each in found if each.ended(now_ms) is None]
    if not taken:
        why = f"the token of {name!r} has ended" if found else f"there is no token of {name!r}"
        raise NotFoundError(why, hint="atoll token list shows them all")
    return taken


def _with_one(
    tokens: tuple[Token, ...],
    name: str,
    role: Role,
    now_ms: int,
    lives_ms: int | None,
    modules: tuple[str, ...] | None,
) -> tuple[tuple[Token, ...], str]:
    taken = {each.id for each in tokens}
    name_of = secrets.token_hex(_ID_BYTES)
    while name_of in taken:
        name_of = secrets.token_hex(_ID_BYTES)
    secret = secrets.token_hex(_SECRET_BYTES)
    token = Token(
        id=name_of,
        name=name,
        role=role,
        sha256=_digest(secret),
        created_ms=now_ms,
        expires_ms=None if lives_ms is None else now_ms + lives_ms,
        modules=modules,
    )
    return (*tokens, token), f"{PREFIX}{name_of}_{secret}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
