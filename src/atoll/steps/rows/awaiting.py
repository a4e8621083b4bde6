"""Awaits a user's function of many rows on an event loop of the task's own.

The loop runs in a thread of its own, so that it does not matter whether the caller has one. Calls
begin in the order of the rows, a bounded number at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

from atoll.errors import UserCodeError
from atoll.topology.rows import Row, rows_of, without_origins

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.usercode import Step

_Answer = Any
"""What the function gave, or the exception that it raised."""


class Awaiting:
    """Calls of one step in one task.

    Args:
        step: Whose function it is.
        at_once: How many calls may be under way.
        timeout_seconds: How long one may take.
        going_on: Whether further rows are asked when one raised: it can be set aside.
    """

    def __init__(self, step: Step, at_once: int, timeout_seconds: float, *, going_on: bool) -> None:
        """The thread begins with the first batch."""
        self.step = step
        self.at_once = at_once
        self.timeout_seconds = timeout_seconds
        self.going_on = going_on
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="atoll-map-async")

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what the functions have left on the loop."""
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def answers(
        self, function: Callable[[Row], Awaitable[Any]], batch: pa.RecordBatch
    ) -> Iterator[_Answer]:
        """What the function gives for each row, in their order; raises what it raised for one."""
        plain, _ = without_origins(batch)
        rows = list(rows_of(plain))
        found = self._thread.submit(self._runner.run, self._all(function, rows)).result()
        return map(_given, found)

    async def _all(
        self, function: Callable[[Row], Awaitable[Any]], rows: list[Row]
    ) -> list[_Answer | _Raised]:
        found: list[_Answer | _Raised] = [None] * len(rows)
        waiting = iter(enumerate(rows))

        async def ask() -> None:
            for at, row in waiting:
                found[at] = await self._one(function, row)
                if isinstance(found[at], _Raised) and not self.going_on:
                    for _ in waiting:  # no further row is asked
                        pass

        await asyncio.gather(*(ask() for _ in range(min(self.at_once, len(rows)))))
        return found

    async def _one(self, function: Callable[[Row], Awaitable[Any]], row: Row) -> _Answer | _Raised:
        limit = asyncio.timeout(self.timeout_seconds)
        try:
            async with limit:
                given = function(row)
                if not inspect.isawaitable(given):
                    return _Raised(self._misgiven(given))
                return await given
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the user's own
            return _Raised(self._late() if limit.expired() else error)

    def _misgiven(self, given: object) -> UserCodeError:
        return UserCodeError(
            f"the function of {self.step.title} gave a {type(given).__name__}, which cannot be "
            "awaited",
            hint="declare it with async def, or use map",
            operator=self.step.title,
            declared=self.step.place,
        )

    def _late(self) -> UserCodeError:
        return UserCodeError(
            f"a call of the function of {self.step.title} took longer than "
            f"{self.timeout_seconds:g} s",
            hint='give it more time, timeout="1 minute", or ask fewer at once, at_once=4',
            operator=self.step.title,
            declared=self.step.place,
        )


class _Raised:
    """What a call raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _given(answer: _Answer | _Raised) -> _Answer:
    if not isinstance(answer, _Raised):
        return answer
    if isinstance(answer.error, Exception):
        raise answer.error
    raise RuntimeError("the call was cancelled") from answer.error
