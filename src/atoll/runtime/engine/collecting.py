"""``collect-local``: an instance keeps its events, and now and then computes its state of them.

Both functions change what is kept in place: a copy loads it for one call and owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from atoll.runtime.actors.interface import Event, State
from atoll.runtime.definition.structs import Duration, EventCount, Update
from atoll.runtime.engine.memory import Kept

Snapshot = Callable[[Iterable[Event]], State]


def by_time(update: Update) -> bool:
    """Whether an update goes by the clock."""
    if isinstance(update, EventCount):
        return False
    return isinstance(update, Duration) or update.units == "ms"


def hold(kept: Kept, update: Update, event: Event, at: int, snapshot: Snapshot) -> None:
    """Keep one more event; by count the state may be computed anew.

    A window that slides by its size is cleared; else its oldest ``slide`` events go.
    """
    kept.held.append((at, event))
    if by_time(update):
        return
    assert not isinstance(update, Duration)
    size, slide = (
        (update.events, update.events)
        if isinstance(update, EventCount)
        else (update.size, update.slide)
    )
    if len(kept.held) >= size:
        kept.state = snapshot(each for _, each in kept.held[-size:])
        del kept.held[:slide]


def first_due(update: Update, since: int, at: int) -> int:
    """When an update by time counts next: so many times after the start of the runtime.

    Args:
        update: By time.
        since: When the runtime was started, epoch milliseconds.
        at: The time now.
    """
    every = _every_ms(update)
    return since + every * (max(at - since, 0) // every + 1)


def pass_time(kept: Kept, update: Update, now_ms: int, snapshot: Snapshot) -> bool:
    """Look at the clock; by time the state may be computed anew. Whether anything has changed.

    However many times were missed, the state is computed once, as of now.
    """
    if kept.due is None or now_ms < kept.due or not by_time(update):
        return False
    every = _every_ms(update)
    last = kept.due + every * ((now_ms - kept.due) // every)
    kept.due = last + every
    if isinstance(update, Duration):
        kept.state = snapshot(each for _, each in kept.held)
        kept.held = []
    else:
        since = last - getattr(update, "size", every)
        kept.held = [(at, each) for at, each in kept.held if at >= since]
        kept.state = snapshot(each for _, each in kept.held)
    return True


def _every_ms(update: Update) -> int:
    return update.duration_ms if isinstance(update, Duration) else getattr(update, "slide", 0)
