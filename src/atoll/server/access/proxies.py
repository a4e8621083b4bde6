"""A proxy before the service: only it may connect, and it says which address a client has.

Only the last address of ``X-Forwarded-For`` counts, the one that the proxy itself added; what
stands before it the client may have written. That it speaks TLS to clients is believed too, so
cookies are for TLS only. Who a client is the proxy is never asked.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from atoll.server.problems import problem_answer, problem_of

__all__ = ["Proxies"]

_ADDRESSES_KEPT = 1_000


class Proxies:
    """ASGI middleware before the guard.

    Args:
        app: What answers.
        networks: Where the proxies are.
    """

    def __init__(self, app: ASGIApp, networks: tuple[str, ...]) -> None:
        self._app = app
        found = [ipaddress.ip_network(each) for each in networks]

        @lru_cache(_ADDRESSES_KEPT)
        def is_proxy(host: str) -> bool:
            address = _address(host)
            return address is not None and any(address in each for each in found)

        self._is_proxy = is_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse who is no proxy; else pass the request on, with the address of its client."""
        client = scope.get("client")
        if scope["type"] != "http" or client is None:  # a Unix socket has no address
            await self._app(scope, receive, send)
            return
        host = client[0]
        address = _address(host)
        if self._is_proxy(host):
            told = Headers(scope=scope).getlist("x-forwarded-for")
            last = told[-1].rpartition(",")[2].strip() if told else ""
            client = (last, 0) if _address(last) is not None else client
            scope = {**scope, "client": client, "scheme": "https"}
        elif address is None or not address.is_loopback:
            problem = problem_of(
                403, "E-FORBIDDEN", "this service is behind a proxy", "call it by way of that"
            )
            await problem_answer(scope, problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
