"""What is followed over a connection: it goes on where it was when the connection is lost.

A thread reads ahead, a few pieces at most: then the connection fills up and the service waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from atoll.client.asking.calls import pause_before_next
from atoll.client.errors import ServiceUnreachableError
from atoll.client.frames import FrameReader, Telling
from atoll.client.wire import AsyncWire, Wire
from atoll.depot.followed import Followed
from atoll.errors import AtollError, StateError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_AHEAD_MAX = 2
_LOOK_SECONDS = 0.2


class RemoteFollowed(Followed[T]):
    """What a service tells, as a local subscription or tail is held.

    Args:
        wire: The connection.
        telling: What is told.

    Raises:
        AtollError: What the service answers instead.
    """

    def __init__(self, wire: Wire, telling: Telling[T]) -> None:
        super().__init__()
        self._wire = wire
        self._telling = telling
        self._ready: queue.Queue[tuple[T | None, str | None]] = queue.Queue(_AHEAD_MAX)
        self._taken: str | None = None
        self._done = threading.Event()
        self._socket: socket.socket | None = None
        self._opened = contextlib.ExitStack()
        response = self._opened.enter_context(wire.streamed(telling.call(first=True)))
        self._thread = threading.Thread(
            target=self._read, args=(response,), name="atoll-following", daemon=True
        )
        self._thread.start()

    def next(self, timeout_seconds: float | None = None) -> T | None:
        """What comes next; None when none came in time, or it has ended."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._one_at_a_time:
            while not self._closed.is_set():
                left = None if until is None else until - time.monotonic()
                found = self._next_ready(left)
                if found is not None:
                    item, self._taken = found
                    if item is not None:
                        return item
                elif left is not None and left <= 0:
                    return None
        if self._error is not None:
            raise self._error
        return None

    @property
    def position(self) -> str | None:
        """Up to where everything that was taken tells: another one goes on from there."""
        return self._taken

    def _next_ready(self, left: float | None) -> tuple[T | None, str | None] | None:
        """What is ready, or soon; the end when there is no more."""
        pause = _LOOK_SECONDS if left is None else max(0.0, min(_LOOK_SECONDS, left))
        over = self._done.is_set()
        try:
            return (
                self._ready.get(timeout=pause) if pause and not over else self._ready.get_nowait()
            )
        except queue.Empty:
            if over:
                self._closed.set()
            return None

    def _wake(self) -> None:
        found = self._socket
        if found is not None:  # a read that waits for more ends then
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

    # In the thread --------------------------------------------------------------------------------

    def _read(self, response: httpx.Response) -> None:
        try:
            with self._opened:
                ended = self._take(response)
            while not ended and not self._closed.is_set():
                ended = self._again()
        except AtollError as error:
            if not self._closed.is_set():
                self._error = self._error or error
        finally:
            self._done.set()

    def _again(self) -> bool:
        """Ask once more, from the position on, for as long as may be."""
        call = self._telling.call(first=False)
        until, attempt = time.monotonic() + self._wire.address.retry_seconds, 0
        while True:
            attempt += 1
            try:
                with self._wire.streamed(call) as response:
                    return self._take(response)
            except AtollError as error:
                pause = pause_before_next(call, error, attempt, until - time.monotonic())
                if pause is None or self._closed.wait(pause):
                    raise

    def _take(self, response: httpx.Response) -> bool:
        """Hand over what comes; whether it ended, rather than broke off."""
        self._socket = _socket_of(response)
        reader = FrameReader(self._telling)
        import httpx

        try:
            for data in response.iter_raw():
                for item in reader.feed(data):
                    self._hand_over(item)
                if self._ready.empty():
                    self._hand_over(None)
                if self._closed.is_set():
                    return True
        except httpx.TransportError:
            return self._closed.is_set()
        return reader.ended

    def _hand_over(self, item: T | None) -> None:
        position = getattr(item, "position", None) if item is not None else self._telling.position
        if item is not None and not getattr(item, "last", True):
            position = None
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put((item, position), timeout=_LOOK_SECONDS)
                return


class AsyncFollowed(Generic[T]):
    """The same for a task: an asynchronous iterator. Made by ``subscribe`` and ``tail``."""

    def __init__(self, wire: AsyncWire, telling: Telling[T]) -> None:
        """Nothing is asked before the first piece is."""
        self._wire = wire
        self._telling = telling
        self._pieces: AsyncIterator[T] = self._told()
        self.position: str | None = None
        """Up to where everything that was taken tells."""

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> T:
        """What comes next, however long it takes."""
        return await anext(self._pieces)

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """End it."""
        await self._pieces.aclose()  # type: ignore[attr-defined]  # a generator

    async def _told(self) -> AsyncIterator[T]:
        first, attempt, until = True, 0, 0.0
        while True:
            call = self._telling.call(first=first)
            try:
                async with self._wire.streamed(call) as response:
                    reader, first, attempt = FrameReader(self._telling), False, 0
                    async for data in response.aiter_raw():
                        for item in reader.feed(data):
                            self.position = getattr(item, "position", self.position)
                            yield item
                if reader.ended:
                    return
                raise ServiceUnreachableError(
                    "the connection broke off", url=self._wire.address.url
                )
            except AtollError as error:
                attempt += 1
                if attempt == 1:
                    until = time.monotonic() + self._wire.address.retry_seconds
                if first and not isinstance(error, ServiceUnreachableError):
                    raise
                pause = pause_before_next(call, error, attempt, until - time.monotonic())
                if pause is None:
                    raise
                await asyncio.sleep(pause)


def values_of(wire: Wire, telling: Telling[list[Any]]) -> Iterator[Any]:
    """The values of an iteration, as they come; raises before the first when it cannot be."""
    opened = contextlib.ExitStack()
    response = opened.enter_context(wire.streamed(telling.call(first=True)))

    def read() -> Iterator[Any]:
        with opened:
            reader = FrameReader(telling)
            for data in response.iter_raw():
                for values in reader.feed(data):
                    yield from values
            if not reader.ended:
                raise StateError(
                    "the connection was lost while values were read", hint="read again"
                )

    return read()


def _socket_of(response: httpx.Response) -> socket.socket | None:
    stream = response.extensions.get("network_stream")
    return None if stream is None else stream.get_extra_info("socket")
