"""How far back the state stays readable: for a time, and for a number of commits. Pure.

What a commit must keep begins at its *horizon*. It was the last commit when the time that
``pstate.history.seconds`` says began: whoever began to read since then, began at it or later. And
it is not above the commit that ``pstate.history.microbatches`` says, nor above one that is pinned.

Time counts from when a commit ceased to be the last one, not from when it was made: a topology
that rested for an hour and then commits every 10 ms still keeps what was read when it began. It is
the time of a clock that only goes forward, and a gap between two microbatches counts for half of
the time at most. So a clock that leaps leaves the commits of the last half readable, and one that
is set back counts as one that stood still. A new life knows of no times: to it all that can
still be read has just ceased to be the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Commit
    from atoll.microbatch.control.options import Options


_SAMPLES = 100
"""Into how many parts the time kept is divided: of the commits of one part the first is noted."""


_EVER_MS = 2**62
"""Longer than any time that is kept."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Which commit was the last one since when, as far back as the horizon needs it.

    It grows with the time kept, not with the number of commits.
    """

    noted: tuple[tuple[int, int], ...] = ()
    """(since when, commit), oldest first, in milliseconds of :attr:`passed_ms`."""
    passed_ms: int = 0
    """How much time has passed in this life, as far as it counts."""
    seen_ms: int | None = None
    """What the clock showed last."""

    def at(self, steady_ms: int, span_ms: int) -> Heads:
        """The same heads, later.

        Args:
            steady_ms: What a clock shows that only goes forward.
            span_ms: The time kept.
        """
        since = 0 if self.seen_ms is None else max(0, steady_ms - self.seen_ms)
        passed_ms = self.passed_ms + min(since, span_ms // 2)
        return replace(self, passed_ms=passed_ms, seen_ms=steady_ms)

    def followed_by(self, commit_id: int, steady_ms: int, span_ms: int) -> Heads:
        """With a commit that readers see as the last one from now on."""
        now = self.at(steady_ms, span_ms)
        if now.noted and now.passed_ms - now.noted[-1][0] < span_ms // _SAMPLES:
            return now
        noted = (*now.noted, (now.passed_ms, commit_id))
        old = sum(since <= now.passed_ms - span_ms for since, _ in noted)
        return replace(now, noted=noted[max(0, old - 1) :])

    def before(self, span_ms: int) -> int | None:
        """A commit that was the last one so long ago, or an earlier one; None: not known."""
        old = [commit for since, commit in self.noted if since <= self.passed_ms - span_ms]
        return old[-1] if old else None

    def since_ever(self, commit_id: int) -> Heads:
        """As if a commit had been the last one for ever: those before it are kept by count only."""
        return replace(self, noted=((-_EVER_MS, commit_id),))

    def upto(self, commit_id: int) -> Heads:
        """Without the commits that a rollback to one abandoned: others get their ids."""
        return replace(self, noted=tuple(each for each in self.noted if each[1] <= commit_id))


NO_HEADS = Heads()
"""What a new life knows."""


def horizon_of(
    commit_id: int, last: Commit, options: Options, heads: Heads, pinned: int | None = None
) -> int:
    """The lowest commit as of which the state can be read after a commit. It never falls.

    Args:
        commit_id: The commit to be made.
        last: The one before it.
        options: How long commits are kept.
        heads: Which commit was the last one when, as of now.
        pinned: The lowest commit that stays readable whatever the options say.
    """
    kept = [commit_id - options.history_microbatches]
    if options.history_seconds:
        before = heads.before(options.history_millis)
        kept.append(last.readable_from if before is None else before)
    if pinned is not None:
        kept.append(pinned)
    return max(last.readable_from, min(kept))
