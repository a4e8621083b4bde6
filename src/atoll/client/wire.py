"""The connection to a service: requests out, data in, problems as errors, and trying again."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from atoll.access.outgoing import trusted
from atoll.client.asking.calls import WAIT_SECONDS_MAX, Call, LostAnswerError, pause_before_next
from atoll.client.errors import ServiceError, ServiceUnreachableError, error_of
from atoll.client.tokens import socket_of, token_header
from atoll.codec.values.exchange import VALUES, unpacked
from atoll.errors import AtollError, UsageError, WaitTimeoutError

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa

T = TypeVar("T")

START_HINT = "start one with: atoll run FILE.py:module; or name it with --url"
_CONNECT_SECONDS_MAX = 5.0
_ANSWER_SECONDS_MAX = 600.0


class Address:
    """Where a service is, and how a client shows who it is.

    Args:
        url: Where it listens: ``http://127.0.0.1:7410``, or ``unix:///path`` for its socket.
        token: What to show; nothing when None.
        retry_seconds: For how long a request that may be sent again is.

    Raises:
        UsageError: When that is no address, or the token must not be sent there.
    """

    def __init__(self, url: str, token: str | None = None, retry_seconds: float = 10.0) -> None:
        import httpx

        self.url = url.rstrip("/")
        self.retry_seconds = retry_seconds
        timeout = httpx.Timeout(_ANSWER_SECONDS_MAX, connect=_CONNECT_SECONDS_MAX, write=None)
        # Proxies of the environment are for the world outside, not for a service on this host.
        self.socket = socket_of(url)
        """The path of the service's Unix socket; None where it has an address."""
        self.options: dict[str, Any] = {
            "base_url": _parsed(url if self.socket is None else "http://localhost"),
            "verify": trusted(url),
            "timeout": timeout,
            "trust_env": False,
            "headers": token_header(url, token),
        }

    def request_of(self, call: Call[Any], seconds: float | None) -> dict[str, Any]:
        """The call as httpx takes it."""
        params, data = call.within(seconds)
        headers = dict(call.headers)
        if call.values:
            headers["accept"] = f"{VALUES}, application/json;q=0.5"
        arguments: dict[str, Any] = {"params": params, "headers": headers}
        if call.content is not None:
            arguments["content"] = call.content()
        elif data is not None:
            arguments["json"] = data
        return arguments

    def lost(self, error: Exception) -> AtollError:
        """What a failure of the transport is, and whether the service can have got the request."""
        import httpx

        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
            return ServiceUnreachableError(
                f"no service answers: {error}", hint=START_HINT, url=self.url
            )
        if isinstance(error, httpx.TimeoutException):
            return LostAnswerError(
                "the service does not answer in time",
                hint="look into its log; atoll status shows whether it works",
                url=self.url,
            )
        return LostAnswerError(f"no service answers: {error}", hint=START_HINT, url=self.url)


class _Turns:
    """How often a call is sent, and how long it waits each time."""

    def __init__(self, call: Call[Any], retry_seconds: float) -> None:
        self._call = call
        self._retry_until = time.monotonic() + retry_seconds
        self._attempt = 0
        wait = call.wait_seconds
        self._wait_until = None if wait is None else time.monotonic() + wait

    def seconds(self) -> float | None:
        """How long the service is to wait now."""
        return None if self._wait_until is None else self._wait_until - time.monotonic()

    def pause_after(self, error: AtollError) -> float:
        """How long to pause before the next time; raises the error when there is none."""
        if isinstance(error, WaitTimeoutError) and (self.seconds() or 0) > 0:
            if (self._call.wait_seconds or 0) <= WAIT_SECONDS_MAX:
                raise error
            return 0.0
        self._attempt += 1
        left = self._retry_until - time.monotonic()
        pause = pause_before_next(self._call, error, self._attempt, left)
        if pause is None:
            raise error
        return pause


class Wire:
    """One connection to one service. Safe from any thread."""

    def __init__(self, address: Address) -> None:
        """Connects when it is first used."""
        import httpx

        self.address = address
        transport = httpx.HTTPTransport(uds=address.socket) if address.socket else None
        self._http = httpx.Client(**address.options, transport=transport)

    def run(self, call: Call[T]) -> T:
        """What the call comes to.

        Raises:
            AtollError: What the service answers instead.
            ServiceUnreachableError: When nothing answers for as long as it is tried.
        """
        turns = _Turns(call, self.address.retry_seconds)
        while True:
            try:
                return call.read(self._answer(call, turns.seconds()))
            except AtollError as error:
                time.sleep(turns.pause_after(error))

    @contextmanager
    def streamed(self, call: Call[Any]) -> Iterator[httpx.Response]:
        """A good answer, whose body is read as it comes; sent once."""
        import httpx

        arguments = self.address.request_of(call, call.wait_seconds)
        try:
            with self._http.stream(call.method, call.path, **arguments) as response:
                if not response.is_success:
                    response.read()
                    refuse(response, self.address.url)
                yield response
        except httpx.TransportError as error:
            raise self.address.lost(error) from None

    @contextmanager
    def arrow(self, call: Call[Any]) -> Iterator[pa.RecordBatchStreamReader]:
        """The Arrow stream that is answered, read as it comes."""
        import pyarrow as pa

        with self.streamed(call) as response:
            yield pa.ipc.open_stream(io.BufferedReader(_Body(response.iter_bytes())))

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _answer(self, call: Call[Any], seconds: float | None) -> Any:
        import httpx

        try:
            response = self._http.request(
                call.method, call.path, **self.address.request_of(call, seconds)
            )
        except httpx.TransportError as error:
            raise self.address.lost(error) from None
        return data_of(response, self.address.url)


class AsyncWire:
    """The same for tasks: nothing blocks the event loop."""

    def __init__(self, address: Address) -> None:
        """Connects when it is first used."""
        import httpx

        self.address = address
        transport = httpx.AsyncHTTPTransport(uds=address.socket) if address.socket else None
        self._http = httpx.AsyncClient(**address.options, transport=transport)

    async def run(self, call: Call[T]) -> T:
        """What the call comes to; raises as :meth:`Wire.run`."""
        turns = _Turns(call, self.address.retry_seconds)
        while True:
            try:
                return call.read(await self._answer(call, turns.seconds()))
            except AtollError as error:
                await asyncio.sleep(turns.pause_after(error))

    @asynccontextmanager
    async def streamed(self, call: Call[Any]) -> AsyncIterator[httpx.Response]:
        """A good answer, whose body is read as it comes; sent once."""
        import httpx

        arguments = self.address.request_of(call, call.wait_seconds)
        try:
            async with self._http.stream(call.method, call.path, **arguments) as response:
                if not response.is_success:
                    await response.aread()
                    refuse(response, self.address.url)
                yield response
        except httpx.TransportError as error:
            raise self.address.lost(error) from None

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def _answer(self, call: Call[Any], seconds: float | None) -> Any:
        import httpx

        arguments = self.address.request_of(call, seconds)
        if call.content is not None:  # what is iterated by a thread elsewhere is small pieces here
            arguments["content"] = _pieces(arguments["content"])
        try:
            response = await self._http.request(call.method, call.path, **arguments)
        except httpx.TransportError as error:
            raise self.address.lost(error) from None
        return data_of(response, self.address.url)


async def _pieces(content: Any) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


class _Body(io.RawIOBase):
    """The body of an answer as a file: a read returns what has come, and waits for something."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _parsed(url: str) -> httpx.URL:
    """The address in parts.

    Raises:
        UsageError: When it is none, or of another protocol.
    """
    import httpx

    try:
        address = httpx.URL(url.rstrip("/"))
        reason = "" if address.scheme in {"http", "https"} and address.host else "no http address"
    except httpx.InvalidURL as error:
        reason = str(error)
    if reason:
        raise UsageError(
            f"{url!r} is no address of a service: {reason}",
            hint="write it as http://127.0.0.1:7410",
            url=url,
        )
    return address


def data_of(response: httpx.Response, url: str) -> Any:
    """The answer's data, or the error that it tells of."""
    if response.is_success and response.headers.get("content-type") == VALUES:
        return unpacked(response.content)
    try:
        data = response.json()
    except ValueError:
        data = None
    if response.is_success and data is not None:
        return data
    return refuse(response, url, data)


def refuse(response: httpx.Response, url: str, data: Mapping[str, Any] | None = None) -> NoReturn:
    """Raise what an answer tells that is no success."""
    if data is None:
        try:
            data = response.json()
        except ValueError:
            data = None
    if isinstance(data, dict) and "code" in data:
        raise error_of(data)
    raise ServiceError(
        f"what answers is no Atoll: HTTP {response.status_code}",
        hint="check the address with --url or ATOLL_URL",
        url=url,
    )
