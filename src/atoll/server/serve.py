"""Run the service in a thread until told to stop.

The socket is bound before anything else, so that a port in use is an error within milliseconds and
not after Spark has started. Signals stay with the caller: the main thread waits for them, the
service runs beside it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from atoll.client.tokens import is_loopback
from atoll.errors import UsageError
from atoll.server.listening.connection import Limits, connection_of
from atoll.server.listening.tls import Tls
from atoll.server.settings import ServerSettings

__all__ = ["ServingAddress", "bind", "serve"]

_START_SECONDS_MAX = 30.0
_STOP_SECONDS_MAX = 10
_MOMENT_SECONDS = 1.0
_TICKS_PER_SECOND = 10


@dataclass(frozen=True, slots=True)
class ServingAddress:
    """Where the service listens."""

    host: str
    port: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


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


def address_of(listener: socket.socket, tls: Tls | None = None) -> ServingAddress:
    """Where a socket listens; known before anything is served there."""
    host, port = listener.getsockname()[:2]
    return ServingAddress(host, port, "http" if tls is None else "https")


@contextmanager
def serve(
    application: FastAPI,
    listener: socket.socket,
    tell: Callable[[str], None] = lambda _: None,
    *,
    tls: Tls | None = None,
    unix: socket.socket | None = None,
) -> Iterator[ServingAddress]:
    """Serve while the block runs; on leaving it, finish open requests and stop.

    Requests that take longer are cut off.

    Args:
        application: What to serve.
        listener: Where.
        tell: Called with what the end waits for, when it takes longer than a moment.
        tls: What the listener speaks; plain HTTP without.
        unix: A listening Unix socket besides, which speaks plain HTTP.

    Raises:
        UsageError: When the service does not come up.
    """
    context = getattr(getattr(application, "state", None), "context", None)
    settings: ServerSettings = getattr(context, "settings", None) or ServerSettings()
    limits = Limits(_connections_max(settings), settings.header_timeout_seconds)
    config = uvicorn.Config(
        application,
        http=connection_of(limits),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # else whoever is on this machine could say that it is elsewhere
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_STOP_SECONDS_MAX,
        h11_max_incomplete_event_size=16 << 10,
    )
    config.load()
    server = _Server(config, tls, unix, settings.header_timeout_seconds)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="atoll-http", daemon=True
    )
    thread.start()
    try:
        if not server.up.wait(_START_SECONDS_MAX):
            raise UsageError("the HTTP service does not start", hint="look into the log")
        yield address_of(listener, tls)
    finally:
        server.should_exit = True
        _end_subscriptions(application)
        _await_end(server, thread, tell)
        listener.close()


def _connections_max(settings: ServerSettings) -> int:
    """As many as are allowed, and no more than leave files for what the service is there for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = settings.connection_count_max
    return allowed if soft == resource.RLIM_INFINITY else max(1, min(allowed, soft // 4))


def _await_end(server: _Server, thread: threading.Thread, tell: Callable[[str], None]) -> None:
    """Wait until the service has ended, and say for what."""
    thread.join(_MOMENT_SECONDS)
    count = server.open_requests()
    if thread.is_alive() and count:
        tell(f"waiting for {count} open requests, {_STOP_SECONDS_MAX} s at most")
    thread.join(_STOP_SECONDS_MAX + 5)
    if server.cut_off:
        tell(f"cut off {server.cut_off} requests that did not end")


def _end_subscriptions(application: object) -> None:
    """Close the subscriptions that are open: else their answers would never end."""
    context = getattr(getattr(application, "state", None), "context", None)
    for subscription in list(getattr(context, "subscriptions", ())):
        subscription.close()


class _Server(uvicorn.Server):
    """Uvicorn's server, telling when it is up. In a thread it leaves signals alone."""

    def __init__(
        self,
        config: uvicorn.Config,
        tls: Tls | None,
        unix: socket.socket | None,
        handshake_seconds: float,
    ) -> None:
        super().__init__(config)
        self._tls = tls
        self._unix = unix
        self._handshake_seconds = handshake_seconds
        self.up = threading.Event()
        self.cut_off = 0

    def open_requests(self) -> int:
        """How many requests are being answered."""
        return len(self.server_state.tasks)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; the requests that are cut off are counted, not logged with a stack trace each."""
        # They stay: a request that was cut off says so when its thread ends, which may be later.
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addFilter(self._is_no_cut)
        await super().shutdown(sockets)

    def _is_no_cut(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Cancel %s running task"):
            self.cut_off = self.open_requests()
            return False
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError | concurrent.futures.CancelledError)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell."""
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        # Else a handshake may take a minute, and is no connection yet that anybody counts.
        seconds = self._handshake_seconds if self._tls is not None else None
        for each in sockets or ():
            self.servers.append(
                await loop.create_server(
                    self._connection,
                    sock=each,
                    ssl=self._tls.context if self._tls is not None else None,
                    ssl_handshake_timeout=seconds,
                    backlog=self.config.backlog,
                )
            )
        if self._unix is not None:
            self.servers.append(await loop.create_server(self._connection, sock=self._unix))
        self.up.set()

    async def on_tick(self, counter: int) -> bool:
        """Look after the certificates every second."""
        if self._tls is not None and counter % _TICKS_PER_SECOND == 0:
            self._tls.refresh()
        return await super().on_tick(counter)

    def _connection(self) -> asyncio.Protocol:
        kind = self.config.http_protocol_class
        made: asyncio.Protocol = kind(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made
