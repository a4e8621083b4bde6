"""The routes that the page needs beside those for everybody."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from atoll.server.context import ContextOf
from atoll.server.event_stream import EVENT_STREAM, EventStream, admit
from atoll.server.page.live import Live, ModuleEvents

router = APIRouter(prefix="/v1", tags=["page"])


@router.get("/live", response_class=Response, responses={200: {"content": {EVENT_STREAM: {}}}})
async def follow_modules(context: ContextOf, request: Request) -> Response:
    """How all modules are in short, as server-sent events: now, and whenever it changes."""
    admit(context)
    live = Live(request.app.state.looking.look)
    context.subscriptions.add(live)
    return EventStream(context, live, ModuleEvents())
