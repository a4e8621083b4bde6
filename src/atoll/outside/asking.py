"""One request over HTTP to an address that may be asked: nothing of it is decided here.

A request goes to the address that was checked and to no other, under the name that was asked for;
redirects are new URLs. A transient failure is told apart, so that whoever asks may try again.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import anyio
import httpx

from atoll.outside.urls import Redirect, Refused, Target, UrlRules, redirected, target_of

BYTES_MAX = 10 << 20
_SECONDS_MAX = 10.0
_REDIRECTS = {301, 302, 303, 307, 308}
_TOO_MANY, _SERVER_ERROR = 429, 500


class Transient(Exception):  # noqa: N818  # no error of Atoll's: it is tried again
    """It may go well another time."""


def ask_http(
    method: str, url: str, headers: Mapping[str, str], body: str | None, rules: UrlRules
) -> dict[str, Any]:
    """The answer to a request: ``status``, ``reason``, ``headers``, ``body``; or ``error``.

    Args:
        method: ``POST`` and so on.
        url: What to ask; a redirect is followed where it may be.
        headers: Sent with it; those that may hold a secret go to no other origin.
        body: A text, or None.
        rules: Which URLs may be asked.

    Raises:
        Transient: When the other side could not be reached, or says that it cannot now.
    """
    until = time.monotonic() + _SECONDS_MAX
    for count in range(10):
        target = target_of(url, rules, _resolve)
        if isinstance(target, Refused):
            return {"error": target.why}
        answer = _asked(method, target, dict(headers), body, until)
        where = answer.get("location")
        if where is None:
            return answer
        onwards = redirected(url, where, headers, count)
        if isinstance(onwards, Refused):
            return {"error": onwards.why}
        assert isinstance(onwards, Redirect)
        url, headers = onwards.url, dict(onwards.headers)
        if answer["status"] == 303:  # noqa: PLR2004  # see other
            method, body = "GET", None
    return {"error": "it redirects without end"}


def _asked(
    method: str, target: Target, headers: dict[str, str], body: str | None, until: float
) -> dict[str, Any]:
    """One request to the address that was checked, given up when its time is over."""

    async def ask() -> dict[str, Any]:
        with anyio.fail_after(until - time.monotonic()):
            return await _answer(method, target, headers, body)

    try:
        return anyio.run(ask)
    except httpx.InvalidURL as error:
        return {"error": f"the URL cannot be asked: {error}"}
    except httpx.HTTPError as error:
        raise Transient(f"{type(error).__name__}: {error}") from error
    except TimeoutError:
        raise Transient(f"there was no whole answer in {_SECONDS_MAX:g} s") from None


async def _answer(
    method: str, target: Target, headers: dict[str, str], body: str | None
) -> dict[str, Any]:
    host = f"[{target.address}]" if ":" in target.address else target.address
    url = httpx.URL(target.url).copy_with(host=host)
    default = {"http": 80, "https": 443}[target.scheme]
    name = target.host if target.port == default else f"{target.host}:{target.port}"
    async with (
        # The client's limit is one for each read; that of the whole is the caller's.
        httpx.AsyncClient(trust_env=False, timeout=_SECONDS_MAX, verify=_verified()) as client,
        client.stream(
            method,
            url,
            headers={**headers, "Host": name, "Accept-Encoding": "identity"},
            content=None if body is None else body.encode(),
            extensions={"sni_hostname": target.host},
        ) as response,
    ):
        return await _read(response)


async def _read(response: httpx.Response) -> dict[str, Any]:
    if response.status_code in _REDIRECTS and "location" in response.headers:
        return {"status": response.status_code, "location": response.headers["location"]}
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > BYTES_MAX:
            return {"error": f"the answer is longer than {BYTES_MAX} bytes"}
    if response.status_code >= _SERVER_ERROR or response.status_code == _TOO_MANY:
        raise Transient(f"{response.status_code} {response.reason_phrase}")
    return {
        "status": response.status_code,
        "reason": response.reason_phrase,
        "headers": dict(response.headers.items()),
        "body": data.decode("utf-8", "replace"),
    }


@lru_cache(maxsize=1)
def _verified() -> ssl.SSLContext:
    return ssl.create_default_context()


def _resolve(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]
