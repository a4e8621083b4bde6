"""The way to a service: a token as which header, over which connections, and by which socket."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from atoll.errors import UsageError


def token_header(url: str, token: str | None) -> dict[str, str]:
    """The header that says who calls; none without a token.

    Raises:
        UsageError: When it is no token, or would cross a network readable by everybody on the way.
    """
    if token is None:
        return {}
    token = token.strip()
    if not (token and token.isascii() and token.isprintable()):
        raise UsageError("that is no token", hint="give what atoll token create printed")
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise UsageError(
            "a token is not sent over http to another machine, where all on the way can read it",
            hint="use an https address",
            url=url,
        )
    return {"authorization": f"Bearer {token}"}


def is_loopback(host: str) -> bool:
    """Whether a name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def socket_of(url: str) -> str | None:
    """The path of a Unix socket, for ``unix:///path``; None for other addresses."""
    return url.removeprefix("unix://") if url.startswith("unix:///") else None
