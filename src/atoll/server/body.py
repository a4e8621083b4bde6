"""A request's body as a file that blocks, for code that reads files in a worker thread.

The event loop fetches a chunk only when the thread asks for the next one, so a body of any size
passes through in the memory of one chunk, and a slow reader slows the sender down instead of
filling a buffer.
"""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
from starlette.exceptions import HTTPException

from atoll.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_HEADWAY_BYTES = 16 << 10
"""Fewer in the time that a sender may be silent are no headway."""
_DRAIN_BYTES_MAX = 64 << 20
_DRAIN_SECONDS_MAX = 5.0


class BodyFile(io.RawIOBase):
    """Reads a body's chunks; only from a thread that ``anyio.to_thread`` started.

    Args:
        chunks: The body, from ``request.stream()``.
        chunk_timeout_seconds: How long the sender may stay silent.
        crowded: Whether others wait for the thread that reads it: then a sender who sends next to
            nothing is not waited for.
        read_bytes_max: The most that one ``read(n)`` may ask for: formats that announce lengths
            must not make the service allocate whatever a sender announces.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        chunk_timeout_seconds: float,
        crowded: Callable[[], bool] = lambda: False,
        read_bytes_max: int,
    ) -> None:
        super().__init__()
        self._chunks = chunks
        self._timeout = chunk_timeout_seconds
        self._read_bytes_max = read_bytes_max
        self._rest = memoryview(b"")
        self._crowded = crowded
        self._came, self._since = 0, 0.0

    def readable(self) -> bool:
        """Yes; it can neither seek nor be written."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer from the current chunk, fetching the next one when it is used up.

        Raises:
            HTTPException: 408 when the sender was silent for too long.
            ClientDisconnect: When the sender went away; an append in progress keeps nothing.
        """
        target = memoryview(buffer).cast("B")
        part = self._take(len(target))
        target[: len(part)] = part
        return len(part)

    def read(self, size: int = -1, /) -> bytes:
        """Exactly ``size`` bytes, fewer only at the end of the body.

        Raises:
            UsageError: When more is asked for than one read may take.
        """
        if size < 0 or size > self._read_bytes_max:
            raise UsageError(
                f"the body announces a part of {size} bytes, more than {self._read_bytes_max}",
                hint="send smaller batches",
            )
        parts: list[memoryview] = []
        missing = size
        while missing and (part := self._take(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _take(self, size: int) -> memoryview:
        """At most ``size`` bytes of the current chunk, after fetching one if need be."""
        if not self._rest:
            self._rest = memoryview(anyio.from_thread.run(self._next_chunk))
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    async def _next_chunk(self) -> bytes:
        """The next chunk that is not empty; empty at the end of the body."""
        try:
            with anyio.fail_after(self._timeout):
                async for chunk in self._chunks:
                    if chunk:
                        self._note(len(chunk))
                        return chunk
        except TimeoutError:
            raise HTTPException(
                408, f"no more of the body came for {self._timeout:g} seconds"
            ) from None
        return b""

    def _note(self, size: int) -> None:
        """See that a body that others wait for makes headway.

        Raises:
            HTTPException: 408 when next to nothing came for as long as it may stay silent.
        """
        now = anyio.current_time()
        self._since = self._since or now
        self._came += size
        if now - self._since < self._timeout:
            return
        if self._came < _HEADWAY_BYTES and self._crowded():
            raise HTTPException(
                408, f"only {self._came} bytes of the body came in {self._timeout:g} seconds"
            )
        self._came, self._since = 0, now


async def drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read what is left of a refused body, within limits.

    An answer given while the sender still sends is often lost: the connection is reset and takes
    the answer with it. Reading on for a moment lets the sender see why it was refused.
    """
    received = 0
    with anyio.move_on_after(_DRAIN_SECONDS_MAX):
        async for chunk in chunks:
            received += len(chunk)
            if received > _DRAIN_BYTES_MAX:
                return
