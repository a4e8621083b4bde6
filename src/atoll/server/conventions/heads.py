"""HEAD: what GET answers, without the body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """ASGI middleware around the routes: whatever can be got can be asked for its head."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the route for GET answer; once the head is sent, what streams is told to end."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        sent = False

        async def heard() -> Message:
            return {"type": "http.disconnect"} if sent else await receive()

        async def told(message: Message) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                await send(message)
                sent = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app({**scope, "method": "GET"}, heard, told)
