"""Performs effects of the kinds ``http`` and ``sql``: one request, one outcome, nothing raised.

A request goes to the address that was checked and to no other, under the name that was asked for;
redirects are new URLs. A transient failure is told apart, so that whoever performs may try again.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

import anyio
import httpx

from atoll.runtime.actors.sql import rewritten
from atoll.runtime.service.effects.outside import Database, Outside
from atoll.runtime.urls import Redirect, Refused, Target, redirected, target_of

BYTES_MAX = 10 << 20
_SECONDS_MAX = 10.0
_REDIRECTS = {301, 302, 303, 307, 308}
_TOO_MANY, _SERVER_ERROR = 429, 500
_ROWS_MAX = 10_000


class Transient(Exception):  # noqa: N818  # no error of Atoll's: it is tried again
    """It may go well another time."""


def perform_http(request: dict[str, Any], key: str, outside: Outside) -> dict[str, Any]:
    """The answer to a request: ``status``, ``reason``, ``headers``, ``body``; or ``error``.

    Args:
        request: ``method``, ``url``, ``headers`` and ``body``.
        key: The idempotency key, sent as a header: a request may come twice.
        outside: Which URLs may be asked.

    Raises:
        Transient: When the other side could not be reached, or says that it cannot now.
    """
    method, url, body = request["method"], request["url"], request["body"]
    headers = {**request["headers"], "Idempotency-Key": key}
    until = time.monotonic() + _SECONDS_MAX
    for count in range(10):
        target = target_of(url, outside.rules, _resolve)
        if isinstance(target, Refused):
            return {"error": target.why}
        answer = _asked(method, target, headers, body, until)
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


def perform_sql(request: dict[str, Any], outside: Outside) -> dict[str, Any]:
    """The rows of a statement as ``rows``, null where it gives none; or ``error``."""
    database = outside.databases.get(request["database"])
    if database is None:
        return {"error": f"no database {request['database']!r} is configured"}
    try:
        statement, values = _bound(request["statement"], request["parameters"], database)
        with closing(database.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement, values)
            rows = None
            if cursor.description is not None:
                names = [column[0] for column in cursor.description]
                found = cursor.fetchmany(_ROWS_MAX)
                rows = [
                    {name: _plain(value) for name, value in zip(names, row, strict=True)}
                    for row in found
                ]
            connection.commit()
            return {"rows": rows}
    except Exception as error:  # noqa: BLE001 - each driver has errors of its own
        return {"error": str(error)[:500]}


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


def _bound(
    statement: str, values: dict[str, Any], database: Database
) -> tuple[str, dict[str, Any] | list[Any]]:
    """The statement and its values as the driver wants them; quoted texts stay as they are."""
    if database.paramstyle == "named":
        return statement, values
    if database.paramstyle == "pyformat":
        text = rewritten(
            statement, lambda name: f"%({name})s", lambda part: part.replace("%", "%%")
        )
        return text, values
    order: list[Any] = []

    def written(name: str) -> str:
        order.append(values[name])
        return "?"

    return rewritten(statement, written), order


def _plain(value: Any) -> Any:
    """A value of a row as JSON knows it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.hex() if isinstance(value, bytes | memoryview) else str(value)
