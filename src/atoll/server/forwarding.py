"""Passes on what changes runtimes to the process that runs them, and its answer back."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread
import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from atoll.access.outgoing import trusted
from atoll.errors import AtollError
from atoll.server.problems import problem_for, problem_of, problem_response

_SECONDS_MAX = 310.0
_BODY_BYTES_MAX = 16 << 20
_PASSED_ON = ("content-type", "accept", "authorization", "cookie", "x-atoll-csrf")
"""The process that runs the runtimes serves the same root, and so knows the same callers."""
_TOLD = ("location", "allow", "retry-after")
_CHANGING = frozenset({"POST", "PATCH", "DELETE"})
_READING = "/api/validate"


class Forwarding:
    """ASGI middleware before the routes of runtimes that another process runs.

    Args:
        app: The application.
        owner: Says where they run.
    """

    def __init__(self, app: ASGIApp, owner: Callable[[], str]) -> None:
        self._app = app
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on when it changes a runtime, else let the routes answer."""
        path = scope.get("path", "")
        changes = scope["type"] == "http" and scope["method"] in _CHANGING
        if not changes or not path.startswith("/api/") or path == _READING:
            await self._app(scope, receive, send)
            return
        response = await self._passed_on(Request(scope, receive))
        await response(scope, receive, send)

    async def _passed_on(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_BYTES_MAX:
                reason = f"the body is larger than {_BODY_BYTES_MAX} bytes"
                return problem_response(problem_of(413, "E-TOO-LARGE", reason))
        try:
            owner = await anyio.to_thread.run_sync(self._owner)
            verify = trusted(owner)
        except AtollError as error:
            return problem_response(problem_for(error))
        path = request.scope["raw_path"].decode("ascii", "replace")
        query = request.scope["query_string"].decode("ascii", "replace")
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        try:
            async with httpx.AsyncClient(
                trust_env=False, timeout=_SECONDS_MAX, verify=verify
            ) as client:
                url = f"{owner}{path}" + (f"?{query}" if query else "")
                answer = await client.request(request.method, url, content=body, headers=headers)
        except httpx.HTTPError as error:
            return problem_response(
                problem_of(
                    503,
                    "E-UNREACHABLE",
                    f"the process that runs the runtimes does not answer: {error}",
                    "start it again; until then runtimes can be read here",
                    {"owner": owner},
                )
            )
        kind = answer.headers.get("content-type")
        told = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
        return Response(
            answer.content, status_code=answer.status_code, media_type=kind, headers=told
        )
