"""The routes that the page needs beside those for everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from atoll.server.context import ContextOf
from atoll.server.event_stream import EVENT_STREAM, EventStream, admit
from atoll.server.page.live import Live, ModuleEvents

router = APIRouter(prefix="/v1", tags=["page"])


@router.get("/live", response_class=Response, responses={200: {"content": {EVENT_STREAM: {}}}})
async def follow_modules(context: ContextOf, request: Request) -> Response:
    """How the modules that one may see are in short, as events: now, and whenever it changes."""
    admit(context)
    look: Callable[[], dict[str, Any]] = request.app.state.looking.look

    def seen() -> dict[str, Any]:
        """What who follows may see of it."""
        found = look()
        modules = {name: each for name, each in found["modules"].items() if context.sees(name)}
        return {**found, "modules": modules}

    live = Live(seen)
    context.subscriptions.add(live)
    return EventStream(context, live, ModuleEvents())
