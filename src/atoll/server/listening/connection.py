"""One connection: how long it may take, how many there may be, and who is at its other end.

Whoever opens connections and says nothing, or says it slowly, holds up nobody: a request's head
must be there within seconds, and when so many connections are open as may be, one that waits for
nothing is closed for a new one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from atoll.server.problems import MEDIA_TYPE, problem_of
from atoll.server.render import render_json

__all__ = ["PEER", "Connection", "Limits"]

PEER = "atoll.peer"
"""Where a request carries the user at the other end of a Unix socket."""

_CREDENTIALS = struct.Struct("3i")


class Limits:
    """What connections may cost.

    Args:
        count_max: How many may be open.
        head_seconds: How long the head of a request may take.
    """

    def __init__(self, count_max: int, head_seconds: float) -> None:
        self.count_max = count_max
        self.head_seconds = head_seconds


class Connection(H11Protocol):
    """Uvicorn's connection, with limits. A subclass made for each service has them."""

    limits: Limits

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head_timer: asyncio.TimerHandle | None = None
        self._waits_since = self.loop.time()

    @property
    def waits(self) -> bool:
        """Whether no request is being answered on it."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it be, or close one for it, or refuse it."""
        super().connection_made(transport)
        peer = _peer(transport)
        if peer is not None:
            self.app = _with_peer(self.app, peer)
        if len(self.connections) > self.limits.count_max and not self._make_room():
            self._refuse(503, "E-BUSY", "too many connections are open", "try again later")
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Go on; what has come of a head so far does not prolong its time."""
        super().data_received(data)
        if not self.waits:
            self._stop_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._await_head()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """A problem, like every other answer that is no success."""
        self._stop_timer()
        self._refuse(400, "E-USAGE", "what was sent is no HTTP request", msg)

    def _await_head(self) -> None:
        self._stop_timer()
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.waits and not self.transport.is_closing():
            seconds = f"{self.limits.head_seconds:g}"
            said = f"no whole request came within {seconds} seconds"
            self._refuse(408, "E-TIMEOUT", said, "send a request without long pauses")

    def _make_room(self) -> bool:
        """Close the connection that has waited longest, where one waits."""
        others = (each for each in self.connections if isinstance(each, Connection))
        waiting = [each for each in others if each is not self and each.waits]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each._waits_since)  # noqa: SLF001 - of this class
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _refuse(self, status: int, code: str, said: str, hint: str) -> None:
        """Answer before any application is asked, and close."""
        body = render_json(problem_of(status, code, said, hint))
        headers = [
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            ("x-content-type-options", "nosniff"),
            ("connection", "close"),
        ]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # something was answered already
        self.transport.close()


def connection_of(limits: Limits) -> type[Connection]:
    """The class of a service's connections."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def _peer(transport: asyncio.Transport) -> int | None:
    """The user at the other end of a Unix socket, as the kernel says."""
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX or sys.platform != "linux":
        return None
    data = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def _with_peer(app: Any, peer: int) -> Any:
    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, PEER: peer}, receive, send)

    return asked
