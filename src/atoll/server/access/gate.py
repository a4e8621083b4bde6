"""The gate: who calls, and whether the table of roles lets it through.

It stands behind the guard and before everything else. What has no row in the table never gets
further, so a route that somebody forgot there is closed, not open.
"""

from __future__ import annotations

import hmac
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from atoll.access.authority import Authority, Presented
from atoll.access.roles import Caller, local_caller
from atoll.errors import (
    AtollError,
    ForbiddenError,
    NotFoundError,
    ThrottledError,
    UnauthenticatedError,
)
from atoll.server.access.table import ROWS, Found, Reach, Row, find_row
from atoll.server.context import CALLER, Context
from atoll.server.event_stream import STILL_LET_IN
from atoll.server.listening.connection import PEER
from atoll.server.problems import problem_answer, problem_for, problem_of

__all__ = ["CSRF_HEADER", "Gate", "cookie_name", "presented_of"]

CSRF_HEADER = "x-atoll-csrf"

_SCHEME = "bearer"
_SECURE_COOKIE = "__Host-atoll"
_COOKIE = "atoll_session"
_WHO = "send Authorization: Bearer TOKEN, a token of atoll token create; or log in"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_LOGINS = [row for row in ROWS if (row.method, row.template) == ("POST", "/v1/session")]
"""A page whose session has ended knows nothing yet that it could show."""


def cookie_name(scope: Scope) -> str:
    """What the cookie of a session is called; browsers keep other sites from setting this one."""
    return _SECURE_COOKIE if scope.get("scheme") == "https" else _COOKIE


def presented_of(scope: Scope) -> Presented:
    """What a request shows of who sends it: headers alone, never its address or body."""
    headers = Headers(scope=scope)
    client = scope.get("client")
    address = client[0] if client else "this machine"
    given = headers.getlist("authorization")
    if len(given) > 1:
        return Presented(address, problem="the request carries two Authorization headers")
    if given:
        scheme, _, token = given[0].partition(" ")
        if scheme.lower() != _SCHEME or not token.strip():
            return Presented(address, problem="the Authorization header carries no bearer token")
        return Presented(address, bearer=token.strip())
    cookies = cookie_parser("; ".join(headers.getlist("cookie")))
    session = cookies.get(_SECURE_COOKIE)
    if session is None and scope.get("scheme") != "https":
        session = cookies.get(_COOKIE)
    return Presented(address, session=session, user=scope.get(PEER))


class Gate:
    """ASGI middleware around everything that answers.

    Args:
        app: What answers.
        authority: Who says who calls; None where nobody is ever asked.
        context: The service.
    """

    def __init__(self, app: ASGIApp, authority: Authority | None, context: Context) -> None:
        self._app = app
        self._authority = authority
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = find_row(scope["method"], scope["path"])
        scope[CALLER] = None
        try:
            scope[CALLER] = await self._caller(scope, found.row)
            row = self._row_for(scope, found)
            if row is not None:
                await self._check_scope(scope[CALLER], row, found.parameters or {})
        except AtollError as error:
            await problem_answer(scope, problem_for(error), _headers_for(error))(
                scope, receive, send
            )
            return
        if found.row is None:
            await _nowhere(scope, found)(scope, receive, send)
            return
        scope[STILL_LET_IN] = partial(self._still_let_in, scope, found.row)
        await self._app(scope, receive, send)

    async def _still_let_in(self, scope: Scope, row: Row) -> bool:
        """Whether an answer that never ends goes on: not when the token was revoked meanwhile."""
        if self._authority is None or row.role is None:
            return True
        try:
            caller = await self._known(self._authority, presented_of(scope))
        except AtollError:
            return False
        return caller is not None

    async def _caller(self, scope: Scope, row: Row | None) -> Caller | None:
        """Who calls; None for somebody unknown, who may call what anybody may.

        Raises:
            UnauthenticatedError: When what it shows is worth nothing.
            ThrottledError: After too many such tries.
        """
        if self._authority is None:
            return local_caller()
        presented = presented_of(scope)
        try:
            caller = await self._known(self._authority, presented)
        except (UnauthenticatedError, ThrottledError):
            if row is not None and row.role is None:
                return None
            raise
        changes = scope["method"] not in _READING and row not in _LOGINS
        if changes and caller is not None and caller.how == "session":
            self._check_page(scope, presented)
        return caller

    @staticmethod
    async def _known(authority: Authority, presented: Presented) -> Caller | None:
        """Who calls; on a thread where others may have to be asked."""
        if authority.is_slow(presented):
            return await anyio.to_thread.run_sync(authority.caller, presented)
        return authority.caller(presented)

    def _check_page(self, scope: Scope, presented: Presented) -> None:
        """See that a change with a cookie comes from the service's own page.

        Raises:
            ForbiddenError: When it does not show what only that page can read.
        """
        assert self._authority is not None
        session = self._authority.session(presented.session or "")
        if not _same(Headers(scope=scope).get(CSRF_HEADER, ""), session.csrf):
            raise ForbiddenError(
                f"a change with a cookie needs the header {CSRF_HEADER}",
                hint="send what GET /v1/session answers as csrf",
            )

    def _row_for(self, scope: Scope, found: Found) -> Row | None:
        """The row, when who calls may call it.

        Raises:
            UnauthenticatedError: When it is not known who calls.
            ForbiddenError: When its role is too low.
        """
        caller, row = scope[CALLER], found.row
        if row is not None and row.role is None:
            return None
        if caller is None:
            raise UnauthenticatedError("nobody said who calls", hint=_WHO)
        if row is not None and row.role is not None and not caller.role.includes(row.role):
            raise ForbiddenError(
                f"{caller.name} is {caller.role}, and this needs {row.role}",
                hint="use a token with that role",
            )
        return row

    async def _check_scope(self, caller: Caller, row: Row, parameters: dict[str, str]) -> None:
        """See that a token for some modules stays with them.

        Raises:
            ForbiddenError: When the route is about all modules.
            NotFoundError: When it is about another one, as if there were none.
        """
        if caller.modules is None:
            return
        if row.reach is Reach.ALL:
            raise ForbiddenError(
                f"{caller.name} is for some modules, and this is about all",
                hint="use a token without --module",
            )
        if row.reach is not Reach.MODULE:
            return
        view = self._context.seen_by(caller)
        if "module" in parameters:
            view.app(parameters["module"])
            return
        runtimes = self._context.runtimes
        reference = parameters["reference"]
        if runtimes is not None:
            found = await anyio.to_thread.run_sync(runtimes.find, reference)
            if caller.sees(found[0].module):
                return
        raise NotFoundError(
            f"there is no runtime {reference[:100]!r}", hint="GET /api/runtimes lists them"
        )


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _headers_for(error: AtollError) -> dict[str, str]:
    if isinstance(error, UnauthenticatedError):
        return {"www-authenticate": 'Bearer realm="atoll"'}
    if isinstance(error, ThrottledError):
        return {"retry-after": str(error.context["retry_after_seconds"])}
    return {}


def _nowhere(scope: Scope, found: Found) -> Any:
    """What the routes themselves would answer where nothing is."""
    if found.methods:
        problem = problem_of(
            405, "E-USAGE", "Method Not Allowed", "the Allow header lists the methods"
        )
        return problem_answer(scope, problem, {"Allow": ", ".join(found.methods)})
    problem = problem_of(404, "E-NOT-FOUND", "Not Found", "look at /openapi.json for the routes")
    return problem_answer(scope, problem)
