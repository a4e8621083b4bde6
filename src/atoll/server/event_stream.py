"""Answers that never end: the changes of a subscription, or the records of a tail.

Nothing is kept for a reader who is slow: what comes next is looked up when what came before has
been sent, and commits and records are kept anyway. One who takes too long for a piece is cut off,
and goes on later from the position that came with the last one received.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Protocol

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from atoll.errors import AtollError, BusyError
from atoll.logs import get_logger
from atoll.pstate.navigate.budget import Budget, within
from atoll.server.context import Context
from atoll.server.problems import problem_for
from atoll.server.render import render_json
from atoll.views.value_change import ValueChange

STILL_LET_IN = "atoll.still_let_in"
"""Where a request carries what says whether who sent it may still go on: its token may end."""

EVENT_STREAM = "text/event-stream"

_log = get_logger(__name__)


class Told(Protocol):
    """What is told piece by piece: a subscription, or a tail."""

    @property
    def position(self) -> str | None:
        """Up to where all is told."""

    @property
    def closed(self) -> bool:
        """Whether it has ended."""

    def next(self, timeout_seconds: float | None = None) -> Any:
        """What comes next; None when nothing came in time, or it has ended."""

    def close(self, error: AtollError | None = None) -> None:
        """End it: who waits goes on at once."""


class Wording(Protocol):
    """How pieces are written."""

    media_type: ClassVar[str]

    def head(self) -> bytes:
        """What comes first."""

    def piece(self, told: Any) -> bytes:
        """One piece."""

    def alive(self, position: str | None) -> bytes:
        """That it is there, and up to where all is told."""

    def problem(self, error: AtollError) -> bytes:
        """Why it ends."""

    def end(self) -> bytes:
        """What comes last where nothing went wrong."""


class Events:
    """Server-sent events."""

    media_type: ClassVar[str] = EVENT_STREAM

    def head(self) -> bytes:
        """A comment, so that the reader knows that it is heard."""
        return b": subscribed\n\n"

    def alive(self, position: str | None) -> bytes:
        """A comment, with the present id."""
        return b": alive\n" + (b"" if position is None else b"id: %b\n" % position.encode()) + b"\n"

    def problem(self, error: AtollError) -> bytes:
        """An event."""
        return event_text("problem", render_json(problem_for(error)))

    def end(self) -> bytes:
        """Nothing: the connection ends."""
        return b""


class ChangeEvents(Events):
    """The changes of a subscription."""

    def piece(self, told: ValueChange) -> bytes:
        """A change; who breaks off between two pages begins again with the first."""
        data = render_json(told.as_dict())
        return event_text(told.kind, data, told.position if told.last else None)


def event_text(kind: str, data: bytes, position: str | None = None) -> bytes:
    """One event. JSON as rendered here has no line breaks, so it is one line of data."""
    named = b"" if position is None else b"id: " + position.encode() + b"\n"
    return named + b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def admit(context: Context) -> None:
    """Nothing, while there is room for one more.

    Raises:
        BusyError: When so many are open as may be.
    """
    if len(context.subscriptions) >= context.settings.subscriber_count_max:
        raise BusyError(
            f"{len(context.subscriptions)} subscriptions are open",
            hint="close some, or let one subscriber pass changes on to others",
        )


class EventStream(Response):
    """What is told, as it comes, until either side ends it.

    Args:
        context: The service.
        told: What to tell; it is closed at the end.
        wording: How.
        first: What it told already.
    """

    def __init__(
        self, context: Context, told: Told, wording: Wording, first: Any | None = None
    ) -> None:
        super().__init__(media_type=wording.media_type, headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._context = context
        self._told = told
        self._wording = wording
        self._first = first
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, then piece after piece."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_for_end, receive, tasks.cancel_scope)
                await self._tell(scope, send)
                tasks.cancel_scope.cancel()
        finally:
            self._told.close()
            self._context.subscriptions.discard(self._told)

    async def _watch_for_end(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _tell(self, scope: Scope, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        text = self._wording.head()
        if self._first is not None:
            text = self._wording.piece(self._first)
        still_let_in = scope.get(STILL_LET_IN)
        while True:
            if still_let_in is not None and not await still_let_in():
                _log.info("subscriber-let-in-no-more", path=scope["path"])
                return
            if text:
                with anyio.move_on_after(self._context.settings.event_timeout_seconds) as limit:
                    await send({"type": "http.response.body", "body": text, "more_body": True})
                if limit.cancelled_caught:
                    _log.info("subscriber-too-slow", path=scope["path"])
                    return
            if self._ended:
                break
            text = await anyio.to_thread.run_sync(
                partial(self._next_text, self._context.settings.heartbeat_seconds),
                abandon_on_cancel=True,  # closing what is told ends the call
                limiter=self._context.subscriber_limiter,
            )
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _next_text(self, heartbeat_seconds: float) -> bytes:
        """What to send next; it may be the last."""
        told, wording = self._told, self._wording
        try:
            with within(Budget(seconds_max=self._context.settings.select_seconds)):
                piece = told.next(heartbeat_seconds)
            if piece is not None:
                return wording.piece(piece)
        except AtollError as error:
            told.close()
            self._ended = True
            return wording.problem(error)
        if told.closed:
            self._ended = True
            return wording.end()
        return wording.alive(told.position)
