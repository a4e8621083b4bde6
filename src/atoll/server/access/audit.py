"""Notes each change, and each refusal, in the log of changes; and shows it to admins."""

from __future__ import annotations

import json
import time
from http import HTTPStatus
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atoll.access.audit import AuditLog, Change, moment, read_audit
from atoll.access.roles import Caller
from atoll.errors import StorageError, UsageError
from atoll.server.access.gate import presented_of
from atoll.server.access.table import Effect, Row, find_row
from atoll.server.context import CALLER, answer
from atoll.server.problems import problem_answer, problem_for
from atoll.storage.places import Place

__all__ = ["Auditing", "router"]

_NOTED_BYTES_MAX = 64 << 10
_TEXT_CHARACTERS_MAX = 500
_REFUSED = frozenset({401, 403, 429})

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("")
async def get_audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    before: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """The last changes of all processes that serve the root, the latest first.

    With ``before``, the ``at`` of an entry, those before it.
    """
    root: Place | None = request.app.state.audit_root
    if root is None:
        raise UsageError(
            "this service keeps no log of changes", hint="start it with atoll run, which does"
        )
    changes = await anyio.to_thread.run_sync(read_audit, root, limit, before)
    return answer({"changes": changes})


class Auditing:
    """ASGI middleware before the gate, so that what the gate refuses is noted too.

    Args:
        app: What answers.
        log: The log.
    """

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request go on, and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        row = find_row(scope["method"], scope["path"]).row
        changes = row is not None and row.effect is Effect.CHANGES
        if changes:
            try:
                self._log.check()
            except StorageError as error:
                await problem_answer(scope, problem_for(error))(scope, receive, send)
                return
        body = _Body(receive) if row is not None and row.noted else None
        status, began = 0, time.monotonic()

        async def noticing(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive if body is None else body.receive, noticing)
        finally:
            if changes or status in _REFUSED:
                taken = int((time.monotonic() - began) * 1_000)
                change = _change(scope, row, status, body, taken)
                # Cut off or not, it is written: what was asked for may have happened.
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._log.note, change)


class _Body:
    """A body as it passes, as long as it is small."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self._size = 0

    async def receive(self) -> Message:
        """What comes next."""
        message = await self._receive()
        part = message.get("body", b"")
        self._size += len(part)
        if self._size <= _NOTED_BYTES_MAX:
            self._parts.append(part)
        return message

    def members(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of its members that are noted, cut where they are long."""
        if self._size > _NOTED_BYTES_MAX:
            return {}
        try:
            data = json.loads(b"".join(self._parts))
        except (ValueError, RecursionError):
            return {}
        if not isinstance(data, dict):
            return {}
        return {name: _short(data[name]) for name in names if name in data}


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= _TEXT_CHARACTERS_MAX else text[:_TEXT_CHARACTERS_MAX] + "..."


def _change(
    scope: Scope, row: Row | None, status: int, body: _Body | None, milliseconds: int
) -> Change:
    caller: Caller | None = scope.get(CALLER)
    given = body.members(row.noted) if body is not None and row is not None else {}
    return Change(
        at=moment(time.time()),
        who="" if caller is None else caller.name,
        how="" if caller is None else caller.how,
        address=presented_of(scope).address,
        action=f"{scope['method']} {scope['path'][:_TEXT_CHARACTERS_MAX]}",
        route="" if row is None else f"{row.method} {row.template}",
        outcome=_outcome(status),
        status=status,
        request_id=scope.get("atoll.request_id", ""),
        token=None if caller is None else caller.token,
        given=given,
        milliseconds=milliseconds,
    )


def _outcome(status: int) -> str:
    if not status:
        return "broken off"
    if status < HTTPStatus.BAD_REQUEST:
        return "done"
    return "failed" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "refused"
