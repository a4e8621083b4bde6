"""Tokens that somebody else signs: OpenID Connect, by keys that its provider publishes.

Only asymmetric signatures count: with a symmetric one, the key that proves a token could make one,
and without one (``alg: none``) anybody could. The issuer and the audience must be those configured,
and a token must say when it ends. Keys are fetched over HTTPS, kept for a while, and fetched anew
for a key that is not known, but not for every token that somebody makes up.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from atoll.access.outgoing import trusted
from atoll.access.roles import Caller, Role
from atoll.errors import StorageError, UnauthenticatedError, UsageError

__all__ = ["Oidc", "OidcSettings", "read_oidc"]

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_KEY_BYTES_MAX = 1 << 20
_KEPT_SECONDS = 3_600.0
_ANEW_SECONDS = 60.0
_FETCH_SECONDS_MAX = 10.0
_SKEW_SECONDS_MAX = 300
_RSA_BITS_MIN = 2048
_HINT = "log in anew where the token came from"


class OidcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose tokens are taken, and what they give.

    Attributes:
        issuer: Who signs, as its tokens say.
        audience: Whom the tokens must be for: this service's name there.
        jwks_url: Where its keys are.
        roles: For each value of the claim of roles the role that it gives; the highest counts.
        role_claim: The claim of roles: a text or a list of texts; dots lead into objects.
        name_claim: The claim that names the caller.
        modules_claim: The claim of the only modules that the caller may see; all without it.
        skew_seconds: How far clocks may differ.
    """

    issuer: str
    audience: str
    jwks_url: str
    roles: dict[str, Role]
    role_claim: str = "roles"
    name_claim: str = "sub"
    modules_claim: str | None = None
    skew_seconds: int = 30


def read_oidc(path: Path) -> OidcSettings:
    """The settings of a file.

    Raises:
        UsageError: When there is none, or it cannot be used.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=OidcSettings)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"the settings of OIDC cannot be read: {error}",
            hint="write a JSON object with issuer, audience, jwks_url and roles",
            file=str(path),
        ) from None
    url = urlsplit(found.jwks_url)
    if url.scheme != "https" and not (url.scheme == "http" and _is_loopback(url.hostname or "")):
        raise UsageError(
            f"keys are not fetched from {found.jwks_url!r}, where others could change them",
            hint="give an https address as jwks_url",
        )
    if not found.roles or not found.audience or not found.issuer:
        raise UsageError(
            "OIDC needs an issuer, an audience and roles", hint="say which claims give which role"
        )
    if not 0 <= found.skew_seconds <= _SKEW_SECONDS_MAX:
        raise UsageError(
            f"clocks cannot differ by {found.skew_seconds} s",
            hint=f"choose skew_seconds from 0 to {_SKEW_SECONDS_MAX}",
        )
    return found


class Oidc:
    """Says who a signed token is.

    Args:
        settings: Whose tokens are taken.
        fetch: Gets the published keys; over HTTPS unless told.
        clock: Seconds, that only go forward.

    Raises:
        UsageError: When what checks signatures is not installed.
    """

    def __init__(
        self,
        settings: OidcSettings,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import jwt
        except ImportError:
            raise UsageError(
                "what checks the signatures of OIDC is not installed",
                hint="install it with: pip install 'atoll[oidc]'",
            ) from None
        self._jwt = jwt
        self.settings = settings
        self._fetch = fetch or _fetched
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._at: float | None = None

    def known(self, text: str) -> tuple[Caller, int]:
        """Who a token is, and when it ends, in milliseconds since 1970. May ask for keys.

        Raises:
            UnauthenticatedError: When it is none, has ended, is for another, or gives no role.
            StorageError: When no keys can be had.
        """
        settings, jwt = self.settings, self._jwt
        try:
            header = jwt.get_unverified_header(text)
            if header.get("alg") not in _ALGORITHMS:
                raise self._refused("is not signed with a key of its own kind")
            key = self._key(str(header.get("kid", "")))
            claims = jwt.decode(
                text,
                key,
                algorithms=_ALGORITHMS,
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.skew_seconds,
                options={
                    "require": ["exp", "iat", "iss", "aud"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.ExpiredSignatureError:
            raise self._refused("has expired") from None
        except jwt.InvalidAudienceError:
            raise self._refused("is for another service") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            raise self._refused("is not known here") from None
        return self._caller_of(claims), int(claims["exp"]) * 1_000

    def _caller_of(self, claims: Mapping[str, Any]) -> Caller:
        settings = self.settings
        given = _texts(_claim(claims, settings.role_claim))
        roles = [role for value, role in settings.roles.items() if value in given]
        if not roles:
            raise self._refused("gives no role here")
        name = _claim(claims, settings.name_claim)
        if not isinstance(name, str) or not name or not name.isprintable():
            raise self._refused("names nobody")
        modules = None
        if settings.modules_claim is not None:
            modules = frozenset(_texts(_claim(claims, settings.modules_claim)))
        order = list(Role)
        return Caller(name[:200], max(roles, key=order.index), "oidc", modules)

    def _key(self, name: str) -> Any:
        """A published key; they are fetched where it is not known, at most once a minute."""
        with self._lock:
            age = None if self._at is None else self._clock() - self._at
            if (
                age is None
                or age > _KEPT_SECONDS
                or (name not in self._keys and age > _ANEW_SECONDS)
            ):
                self._keys = self._published(self._keys)
                self._at = self._clock()
            found = self._keys.get(name)
        if found is None:
            raise self._refused("is not known here")
        return found

    def _published(self, known: dict[str, Any]) -> dict[str, Any]:
        try:
            found = self._jwt.PyJWKSet.from_json(self._fetch(self.settings.jwks_url).decode())
        except Exception as error:
            if known:
                return known  # the provider may be away for a while
            raise StorageError(
                "the keys of OIDC cannot be had", hint="see that jwks_url answers"
            ) from error
        return {
            each.key_id: each.key
            for each in found.keys
            if each.key_id and getattr(each.key, "key_size", _RSA_BITS_MIN) >= _bits_min(each)
        }

    @staticmethod
    def _refused(why: str) -> UnauthenticatedError:
        return UnauthenticatedError(f"the token {why}", hint=_HINT)


def _bits_min(key: Any) -> int:
    return _RSA_BITS_MIN if key.key_type == "RSA" else 0


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    found: Any = claims
    for part in [name] if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _fetched(url: str) -> bytes:
    """What lies at an address: no redirect is followed, and no proxy of the environment used."""
    import httpx

    with (
        httpx.Client(trust_env=False, timeout=_FETCH_SECONDS_MAX, verify=trusted(url)) as client,
        client.stream("GET", url) as answer,
    ):
        answer.raise_for_status()
        if answer.is_redirect:
            raise ValueError("the address of the keys leads elsewhere")
        data = b""
        for chunk in answer.iter_bytes():
            data += chunk
            if len(data) > _KEY_BYTES_MAX:
                raise ValueError("the keys are too large")
    return data
