"""Passes on what a door cannot answer to the process that runs the module, and its answer back.

The door reads state, subscriptions and depots itself; what writes, changes, waits or asks how
something runs goes to the owner. When the owner has gone the door looks for the next one, for as
long as a client may be kept waiting; a request that may have arrived is never sent twice by it.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import atoll
from atoll.access.outgoing import trusted
from atoll.client.errors import ServiceUnreachableError
from atoll.client.tokens import is_loopback
from atoll.errors import AtollError, StoppedError
from atoll.server.context import CALLER, answer
from atoll.server.doors.modules import DoorModules
from atoll.server.problems import problem_answer, problem_for

FAILOVER_SECONDS = 5.0
"""So long a request waits for the next owner."""
_LOOK_SECONDS = 0.1
_ANSWER_SECONDS_MAX = 310.0
_RETRY_AFTER = {"retry-after": "1"}

_PASSED_ON = (
    "accept",
    "authorization",
    "atoll-producer-epoch",
    "atoll-producer-id",
    "atoll-producer-sequence",
    "content-length",
    "content-type",
    "cookie",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "x-atoll-csrf",
)
"""The owner serves the same root, and so knows the same callers."""
_TOLD = ("allow", "content-type", "etag", "location", "retry-after", "www-authenticate")

_OF_MODULE = re.compile(r"^/v1/modules/([A-Za-z0-9][A-Za-z0-9_-]{0,62})(/.*)?$")
_READ_HERE = {
    "GET": re.compile(
        r"^(|/depots(/[^/]+(/records)?)?|/pstates(/[^/]+(/(export|subscribe|value))?)?)$"
    ),
    "POST": re.compile(r"^/pstates/[^/]+/(select|get)$"),
}
_OF_ALL = re.compile(r"^/v1/cluster(/|$)")
_STATUS = "/v1/status"


class PassingOn:
    """ASGI middleware before the routes of a door.

    Args:
        app: The routes.
        modules: The modules of the root.
        failover_seconds: How long a request waits for the next owner.
    """

    def __init__(
        self, app: ASGIApp, modules: DoorModules, failover_seconds: float = FAILOVER_SECONDS
    ) -> None:
        self._app = app
        self._modules = modules
        self._failover_seconds = failover_seconds
        self._http: dict[str, httpx.AsyncClient] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the routes answer, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await self._answered(request)
        except AtollError as error:
            problem = problem_for(error)
            headers = _RETRY_AFTER if problem["status"] == 503 else {}  # noqa: PLR2004
            response = problem_answer(scope, problem, headers)
        if response is None:
            await self._app(scope, receive, send)
        else:
            await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response | None:
        """The owner's answer; None for what is answered here."""
        path = request.url.path
        if path == _STATUS and request.method in ("GET", "HEAD"):
            return await self._status(request)
        if _OF_ALL.match(path):
            return await self._passed_on(request, None)
        found = _OF_MODULE.match(path)
        if found is None or found[1] not in self._modules or _is_read_here(request, found[2] or ""):
            return None
        return await self._passed_on(request, found[1])

    async def _passed_on(self, request: Request, module: str | None) -> Response:
        """What the owner of a module answers, or any owner.

        Raises:
            StoppedError: When nobody serves the module.
            ServiceUnreachableError: When nobody answers where it should be.
        """
        until = time.monotonic() + self._failover_seconds
        body = _Body(request)
        while True:
            try:
                url = await anyio.to_thread.run_sync(partial(self._url, module))
                return await self._sent(request, url, body)
            except (StoppedError, _UnsentError) as error:
                if time.monotonic() >= until:
                    raise error.told if isinstance(error, _UnsentError) else error from None
            await anyio.sleep(_LOOK_SECONDS)

    def _url(self, module: str | None) -> str:
        if module is not None:
            return self._modules.url_of(module)
        for each in self._modules:
            try:
                return self._modules.url_of(each)
            except StoppedError:
                continue
        raise StoppedError("no module of this root is served", hint="start one with atoll run")

    async def _sent(self, request: Request, url: str, body: _Body) -> Response:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        _check_carried(url, headers)
        target = url + request.scope["raw_path"].decode("ascii", "replace")
        query = request.scope["query_string"].decode("ascii", "replace")
        method = request.method
        client = self._client(url)
        passed = client.build_request(
            method,
            target + (f"?{query}" if query else ""),
            headers=headers,
            content=None if method in ("GET", "HEAD") else body.pieces(),
        )
        try:
            found = await client.send(passed, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _UnsentError(_unreachable(url, error)) from None
        except httpx.TransportError as error:
            raise _unreachable(url, error) from None
        told = {name: found.headers[name] for name in _TOLD if name in found.headers}
        return StreamingResponse(_pieces_of(found), found.status_code, told)

    async def _status(self, request: Request) -> Response:
        """The status of all modules that the caller sees, each as its owner says."""
        caller = request.scope.get(CALLER)
        told: dict[str, Any] = {}
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        for name in self._modules:
            if caller is not None and not caller.sees(name):
                continue
            told[name] = await self._status_of(name, headers)
        return answer({"version": atoll.__version__, "modules": told})

    async def _status_of(self, module: str, headers: dict[str, str]) -> dict[str, Any]:
        try:
            url = await anyio.to_thread.run_sync(partial(self._url, module))
            _check_carried(url, headers)
            found = await self._client(url).get(
                f"{url}/v1/modules/{module}/status", headers=headers
            )
            if found.is_success:
                status: dict[str, Any] = found.json()
                return status
            reason: AtollError = ServiceUnreachableError(
                f"the process that runs it answers {found.status_code}", url=url
            )
        except AtollError as error:
            reason = error
        except httpx.TransportError as error:
            reason = _unreachable(url, error)
        told = problem_for(reason)
        return {
            "module": module,
            "state": "stopped",
            "error": {
                "code": told["code"],
                "message": told["detail"],
                "hint": told.get("hint"),
                "context": told.get("context", {}),
            },
            "topologies": {},
            "depots": {},
        }

    def _client(self, url: str) -> httpx.AsyncClient:
        if url not in self._http:
            timeout = httpx.Timeout(_ANSWER_SECONDS_MAX, connect=2.0, write=None)
            # No connection is kept: one to an owner that has gone would look like a lost answer.
            limits = httpx.Limits(max_keepalive_connections=0)
            self._http[url] = httpx.AsyncClient(
                trust_env=False, timeout=timeout, limits=limits, verify=trusted(url)
            )
        return self._http[url]


class _UnsentError(Exception):
    """The owner cannot have got the request."""

    def __init__(self, told: AtollError) -> None:
        super().__init__(told.message)
        self.told = told


class _Body:
    """The body of a request on its way, which can be begun once."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its pieces. A connection is there before the first is asked for."""
        async for piece in self._request.stream():
            if piece:
                yield piece


def _is_read_here(request: Request, rest: str) -> bool:
    """Whether a door answers this about a module itself."""
    method = "GET" if request.method == "HEAD" else request.method
    pattern = _READ_HERE.get(method)
    if pattern is None or not pattern.match(rest):
        return False
    return "fresh_seconds" not in parse_qs(request.url.query, keep_blank_values=True)


def _check_carried(url: str, headers: dict[str, str]) -> None:
    """See that what says who calls does not cross a network readable by all.

    Raises:
        ServiceUnreachableError: When it would.
    """
    parts = httpx.URL(url)
    if parts.scheme == "http" and not is_loopback(parts.host) and (headers.keys() & _SECRET):
        raise ServiceUnreachableError(
            "the process that runs this module says an http address on another machine, where a "
            "token would be readable by all on the way",
            hint="let it say an https address: atoll run --announce https://...",
            url=url,
        )


_SECRET = {"authorization", "cookie"}


def _unreachable(url: str, error: Exception) -> ServiceUnreachableError:
    return ServiceUnreachableError(
        f"the process that runs this module does not answer: {error}",
        hint="start it again; until then its state can be read here",
        url=url,
    )


async def _pieces_of(found: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in found.aiter_raw():
            yield piece
    finally:
        await found.aclose()
