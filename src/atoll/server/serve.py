"""Run the service in a thread until told to stop.

The socket is bound before anything else, so that a port in use is an error within milliseconds and
not after Spark has started. Signals stay with the caller: the main thread waits for them, the
service runs beside it.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from atoll.errors import UsageError

__all__ = ["ServingAddress", "bind", "serve"]

_START_SECONDS_MAX = 30.0
_STOP_SECONDS_MAX = 10


@dataclass(frozen=True, slots=True)
class ServingAddress:
    """Where the service listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Args:
        host: A name or address of this machine.
        port: The port; 0 for any free one.

    Raises:
        UsageError: When the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
            hint="choose another --port (0 takes a free one) or --host, or stop what holds it",
            host=host,
            port=port,
        ) from None


@contextmanager
def serve(application: FastAPI, listener: socket.socket) -> Iterator[ServingAddress]:
    """Serve while the block runs; on leaving it, finish open requests and stop.

    Raises:
        UsageError: When the service does not come up.
    """
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_STOP_SECONDS_MAX,
        h11_max_incomplete_event_size=16 << 10,
    )
    server = _Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="atoll-http", daemon=True
    )
    thread.start()
    try:
        if not server.up.wait(_START_SECONDS_MAX):
            raise UsageError("the HTTP service does not start", hint="look into the log")
        yield ServingAddress(host, port)
    finally:
        server.should_exit = True
        _end_subscriptions(application)
        thread.join(_STOP_SECONDS_MAX + 5)
        listener.close()


def _end_subscriptions(application: object) -> None:
    """Close the subscriptions that are open: else their answers would never end."""
    context = getattr(getattr(application, "state", None), "context", None)
    for subscription in list(getattr(context, "subscriptions", ())):
        subscription.close()


class _Server(uvicorn.Server):
    """Uvicorn's server, telling when it is up. In a thread it leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets=sockets)
        self.up.set()
