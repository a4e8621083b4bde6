"""Answers that never end: server-sent events of a subscription.

Nothing is kept for a subscriber who is slow: the next change is looked up when the one before has
been sent, and the commits are kept anyway. One who takes too long for an event is cut off, and
goes on later from the ``id`` of the last event received.
"""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.server.context import Context
from atoll.server.problems import problem_for
from atoll.server.render import render_json
from atoll.views.subscription import Subscription
from atoll.views.value_change import ValueChange

EVENT_STREAM = "text/event-stream"

_log = get_logger(__name__)


def event_text(kind: str, data: bytes, position: str | None = None) -> bytes:
    """One event. JSON as rendered here has no line breaks, so it is one line of data."""
    named = b"" if position is None else b"id: " + position.encode() + b"\n"
    return named + b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def _change_text(change: ValueChange) -> bytes:
    """A change as an event; who breaks off between two pages begins again with the first."""
    data = render_json(change.as_dict())
    return event_text(change.kind, data, change.position if change.last else None)


class EventStream(Response):
    """The changes of a subscription as they come, until either side ends it.

    Args:
        context: The service.
        subscription: What to tell; it is closed at the end.
        first: What it told already.
    """

    def __init__(
        self, context: Context, subscription: Subscription, first: ValueChange | None
    ) -> None:
        super().__init__(media_type=EVENT_STREAM, headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._context = context
        self._subscription = subscription
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, then event after event."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_for_end, receive, tasks.cancel_scope)
                await self._tell(scope, send)
                tasks.cancel_scope.cancel()
        finally:
            self._subscription.close()
            self._context.subscriptions.discard(self._subscription)

    async def _watch_for_end(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _tell(self, scope: Scope, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        text = b": subscribed\n\n" if self._first is None else _change_text(self._first)
        while text:
            with anyio.move_on_after(self._context.settings.event_timeout_seconds) as limit:
                await send({"type": "http.response.body", "body": text, "more_body": True})
            if limit.cancelled_caught:
                _log.info("subscriber-too-slow", path=scope["path"])
                return
            text = await self._next_text()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next_text(self) -> bytes:
        """What to send next; nothing at the end."""
        settings, subscription = self._context.settings, self._subscription
        try:
            change = await anyio.to_thread.run_sync(
                partial(subscription.next, settings.heartbeat_seconds),
                abandon_on_cancel=True,  # closing the subscription ends the call
                limiter=self._context.subscriber_limiter,
            )
        except AtollError as error:
            subscription.close()
            return event_text("problem", render_json(problem_for(error)))
        if change is not None:
            return _change_text(change)
        if subscription.closed:
            return b""
        position = subscription.position
        return b": alive\n" + (b"" if position is None else b"id: %b\n" % position.encode()) + b"\n"
