"""Sessions of browsers: a token for a cookie, who one is, and the end of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from atoll.access.authority import Authority, Presented
from atoll.access.roles import Caller, Role
from atoll.access.sessions import Session
from atoll.errors import UnauthenticatedError, UsageError
from atoll.server.access.gate import cookie_name, presented_of
from atoll.server.context import CALLER, ContextOf, answer

router = APIRouter(prefix="/v1/session", tags=["session"])

_TOKEN_CHARACTERS_MAX = 8_000


class Login(BaseModel):
    """The token that a session is wanted for."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, Field(min_length=1, max_length=_TOKEN_CHARACTERS_MAX)]


@router.get("")
async def get_session(context: ContextOf, request: Request) -> Response:
    """Who calls, and what it may; for a page ``csrf`` is what it sends with every change.

    ``authentication`` is false where nobody is asked, and then all may be done.
    """
    authority = _authority(request)
    caller = context.caller
    if caller is None:
        return answer({"authentication": True, "name": None, "role": None, "read_only": True})
    session = None
    if authority is not None and caller.how == "session":
        session = authority.session(presented_of(request.scope).session or "")
    return answer(_told(caller, session, asked=authority is not None and authority.required))


@router.post("")
async def log_in(context: ContextOf, request: Request, wanted: Login) -> Response:
    """Exchange a token for a session: the answer is as of GET, and sets a cookie."""
    authority = _authority(request)
    if authority is None:
        raise UsageError("this service asks nobody who calls", hint="go on without logging in")
    address = presented_of(request.scope).address
    session = await context.in_thread(authority.log_in, Presented(address, bearer=wanted.token))
    request.scope[CALLER] = session.caller  # for the log of changes
    response = answer(_told(session.caller, session, asked=True))
    seconds = max(1, (session.expires_ms - authority.now_ms()) // 1000)
    _set_cookie(request, response, session.text, seconds)
    return response


@router.delete("")
async def log_out(context: ContextOf, request: Request) -> Response:
    """End the session that the cookie is, here and wherever the cookie was copied to."""
    authority = _authority(request)
    caller = context.caller
    if authority is None or caller is None or caller.how != "session":
        raise UnauthenticatedError("there is no session", hint="log in: POST /v1/session")
    session = authority.session(presented_of(request.scope).session or "")
    await context.in_thread(authority.sessions.end, session, authority.now_ms())
    response = answer({"authentication": True, "name": None, "role": None, "read_only": True})
    _set_cookie(request, response, "", 0)
    return response


def _authority(request: Request) -> Authority | None:
    found: Authority | None = request.app.state.authority
    return found


def _told(caller: Caller, session: Session | None, *, asked: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "authentication": asked,
        "name": caller.name,
        "role": caller.role,
        "how": caller.how,
        "modules": None if caller.modules is None else sorted(caller.modules),
        "read_only": not caller.role.includes(Role.OPERATOR),
    }
    if session is not None:
        ends = datetime.fromtimestamp(session.expires_ms / 1000, UTC)
        told |= {"csrf": session.csrf, "expires_at": ends.isoformat(timespec="seconds")}
    return told


def _set_cookie(request: Request, response: Response, text: str, seconds: int) -> None:
    """Only this service gets it back, only for its own pages, and no script reads it."""
    response.set_cookie(
        cookie_name(request.scope),
        text,
        max_age=seconds,
        path="/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
