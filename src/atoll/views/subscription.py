"""A subscription: each commit's changes of one value, for whoever waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from atoll.depot.followed import Followed
from atoll.depot.receipt import Awaited, Receipt, is_token
from atoll.errors import DamageError, NotFoundError, UsageError
from atoll.path import Path
from atoll.views.following import Following
from atoll.views.value_change import Position, ValueChange

if TYPE_CHECKING:
    from atoll.microbatch.commits.history import CommitHistory
    from atoll.views.readable import ReadablePState


PAGE_ENTRIES = 1000
_GONE = (DamageError, NotFoundError, UsageError)
"""What a follower meets whose commits were dropped."""


class CommitWatch(Protocol):
    """A topology's commits as they become visible; all subscriptions of a topology share one."""

    def head(self) -> CommitHistory:
        """The log as of the last commit; the same object while there is no new one."""

    def wait(
        self, known: CommitHistory, over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        """Return when the head is another one, when it is over, or when the time is.

        It may return earlier. ``over`` must be quick, and may be called in any thread.
        """

    def wake(self) -> None:
        """Let everybody who waits look whether it is over."""


After = Position | Receipt | Awaited | str | int
"""Where a subscription begins: behind a position, or as soon as something is shown."""


def position_after(
    pstate: ReadablePState, after: After | None, timeout_seconds: float
) -> Position | str | int | None:
    """The position to begin at; waits first for what a receipt, or its token, tells of.

    Raises:
        ReceiptError: When the PState never shows that.
        WaitTimeoutError: When it takes longer.
    """
    if isinstance(after, Receipt | Awaited) or (isinstance(after, str) and is_token(after)):
        pstate.after(after, timeout_seconds=timeout_seconds)
        return None
    return after


class Subscription(Followed[ValueChange]):
    """The changes of one value, in the order of the commits: an iterator that waits for them.

    Any thread may close it; else it is for one thread at a time. Made by ``app.subscribe``.

    Args:
        pstate: The PState.
        path: Leads to one value; None for the whole PState.
        watch: Its topology's commits.
        after: The position of the last change received, to go on from there; None to begin with
            the value.
        page_entries: How many entries of a collection one page of a snapshot holds at most.

    Raises:
        PathError: When the path does not fit the schema.
        UsageError: When ``after`` is no position, or a page holds nothing.
    """

    def __init__(
        self,
        pstate: ReadablePState,
        path: Path | None,
        watch: CommitWatch,
        *,
        after: Position | str | int | None = None,
        page_entries: int = PAGE_ENTRIES,
    ) -> None:
        if page_entries < 1:
            raise UsageError(f"a page cannot hold {page_entries} entries", hint="choose 1 or more")
        super().__init__()
        position = None if after is None else Position.of(after)
        self._following = Following(pstate, path or Path(), position, page_entries)
        self._watch = watch

    def next(self, timeout_seconds: float | None = None) -> ValueChange | None:
        """The next change; None when none came in time, or the subscription is closed.

        Args:
            timeout_seconds: How long to wait; 0 to take only what is there, None for ever.

        Raises:
            FencedError: When another process took the module over.
            DamageError: When the state cannot be read.
            PathError: When the path leads to several values.
        """
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._one_at_a_time:
            while not self._closed.is_set():
                head = self._watch.head()
                change = self._advance(head)
                if change is not None:
                    return change
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._watch.wait(head, self._closed.is_set, left)
        if self._error is not None:
            raise self._error
        return None

    @property
    def position(self) -> str | None:
        """Up to where everything is told: ``app.subscribe(..., after=changes.position)``.

        It moves on with commits that left the value as it was, too. None before the value was
        told, and between the pages of it.
        """
        found = self._following.position
        return None if found is None else str(found)

    def _wake(self) -> None:
        self._watch.wake()

    def _advance(self, head: CommitHistory) -> ValueChange | None:
        """What is next to tell; the whole value when a commit on the way is gone."""
        try:
            return self._following.advance(head)
        except _GONE:
            self._following.restart("gap")
        try:
            return self._following.advance(self._watch.head())
        except _GONE:
            self._following.restart("gap")
            if self._watch.head() is head:
                raise
            return self._advance(self._watch.head())
