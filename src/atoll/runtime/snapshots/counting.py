"""Counts events and watches the clock, and says which events a snapshot is of. Pure.

What an actor's instances had is kept as *runs*: so many events of one instance, one after the
other, that were counted in one microbatch. A window is a piece of the runs, and so for each
instance a range of the numbers that its events have in the event log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from atoll.runtime.definition.structs import Duration, EventCount, Sliding, Update

STEPS = (
    "runtime-creation",
    "copy-registration",
    "counter-tracking",
    "instance-selection",
    "snapshot-calculation",
    "snapshot-offer",
    "actor-update",
)


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Events of one instance, one after the other.

    Args:
        at: When the first of them came in, epoch milliseconds.
        instance: Whose, as ``copy.instance``.
        first: The number of the first in the instance's log.
        count: How many.
    """

    at: int
    instance: str
    first: int
    count: int


class Calculation(msgspec.Struct, frozen=True):
    """A snapshot that is asked for.

    Args:
        number: Of the crossing; a later one has a higher number.
        at: When the window was full, epoch milliseconds.
        since: When the first of its events came in.
        ranges: By instance the numbers of its events: from, and the one after the last.
        events: How many in all.
        selected: The instance that computes it first.
    """

    number: int
    at: int
    since: int
    ranges: dict[str, tuple[int, int]]
    events: int
    selected: str = ""


class Counted(msgspec.Struct, frozen=True):
    """What the calculator knows of one actor.

    Args:
        instances: Those that were ever registered, and how many events each has had.
        copies: How many copies there are; instances of others are registered no more.
        runs: The events that a window to come may hold.
        total: How many events were counted, ever.
        crossings: How many windows were full, ever.
        end: For windows by count, the total at which the next one is full.
        due: For windows by time, when the next one is; None before the start.
        open: What is being computed.
        waiting: The newest crossing since, which is computed next.
        superseded: How many crossings were overtaken before they were computed.
        selections: How many calculations were given to an instance.
        offers: How many snapshots were offered.
        last: The number of the last snapshot offered.
        last_events: Of how many events it was.
        last_by: Who computed it.
        last_at: When it was offered, epoch milliseconds.
    """

    instances: dict[str, int] = {}
    copies: int = 1
    runs: list[Run] = []
    total: int = 0
    crossings: int = 0
    end: int | None = None
    due: int | None = None
    open: Calculation | None = None
    waiting: Calculation | None = None
    superseded: int = 0
    selections: int = 0
    offers: int = 0
    last: int = 0
    last_events: int = 0
    last_by: str = ""
    last_at: int = 0


def present(state: Counted) -> list[str]:
    """The instances that are registered now, in order."""
    now = [each for each in state.instances if _copy(each) <= state.copies]
    return sorted(now, key=_in_order)


def registered(
    state: Counted, instances: Iterable[str], copies: int, at: int, update: Update
) -> Counted:
    """Step 2: a copy tells its instances; those of copies that are no more go."""
    known = {**dict.fromkeys(instances, 0), **state.instances}
    every = every_ms(update)
    due = at + every if every and state.due is None else state.due
    return msgspec.structs.replace(state, instances=known, copies=copies, due=due)


def counted(state: Counted, seen_by: Mapping[str, int], at: int, update: Update) -> Counted:
    """Step 3 by count: how many events instances have had, in all, and whether a window is full."""
    instances, runs, total = dict(state.instances), list(state.runs), state.total
    for instance in sorted(seen_by, key=_in_order):
        known = instances.get(instance, 0)
        more = seen_by[instance] - known
        if more > 0:
            runs.append(Run(at, instance, known + 1, more))
            instances[instance] = seen_by[instance]
            total += more
    state = msgspec.structs.replace(state, instances=instances, runs=runs, total=total)
    if not every_ms(update):
        state = _crossed_by_count(state, at, update)
    if isinstance(update, Sliding):
        return state
    return msgspec.structs.replace(state, runs=_joined(state.runs))


def ticked(state: Counted, now_ms: int, update: Update) -> Counted:
    """Step 3 by the clock: whether a window has ended.

    However many were missed, one snapshot is asked for, as of the last of them.
    """
    every = every_ms(update)
    if state.due is None or not every or now_ms < state.due:
        return state
    missed = (now_ms - state.due) // every
    last = state.due + every * missed
    runs = state.runs
    if isinstance(update, Sliding):
        runs = [run for run in runs if run.at >= last - update.size]
    kept = runs if isinstance(update, Sliding) else []
    state = msgspec.structs.replace(
        state,
        due=last + every,
        runs=kept,
        crossings=state.crossings + missed + 1,
        superseded=state.superseded + missed,
    )
    return _asked(state, _calculation(state.crossings, now_ms, runs))


def offered(state: Counted, number: int, by: str, events: int, at: int) -> Counted:
    """Steps 6 and 7: a snapshot was offered to all copies; one that is no news changes nothing."""
    if number <= state.last:
        return state
    rest = state.open if state.open is not None and state.open.number > number else None
    state = msgspec.structs.replace(
        state,
        open=rest,
        offers=state.offers + 1,
        last=number,
        last_events=events,
        last_by=by,
        last_at=at,
    )
    if rest is None and state.waiting is not None:
        waiting = state.waiting
        state = msgspec.structs.replace(state, waiting=None)
        return state if waiting.number <= number else _asked(state, waiting)
    return state


def selected(instances: Sequence[str], number: int, attempt: int = 0) -> str:
    """Step 4: the instance that computes a snapshot, in turn; another one at each attempt."""
    return instances[(number + attempt - 1) % len(instances)] if instances else ""


# Inside -------------------------------------------------------------------------------------------


def _crossed_by_count(state: Counted, at: int, update: Update) -> Counted:
    size, slide = _events(update)
    end = state.end if state.end is not None else state.total - _sum(state.runs) + size
    if state.total < end:
        return msgspec.structs.replace(state, end=end)
    full = (state.total - end) // slide + 1
    last = end + slide * (full - 1)
    first = state.total - _sum(state.runs)
    window = _piece(state.runs, last - size - first, last - first)
    kept = _piece(state.runs, last + slide - size - first, state.total - first)
    state = msgspec.structs.replace(
        state,
        runs=kept,
        end=last + slide,
        crossings=state.crossings + full,
        superseded=state.superseded + full - 1,
    )
    return _asked(state, _calculation(state.crossings, at, window))


def _asked(state: Counted, wanted: Calculation) -> Counted:
    """Step 4 for a crossing, or let it wait for the calculation that runs."""
    if state.open is not None:
        overtaken = state.waiting is not None
        return msgspec.structs.replace(
            state, waiting=wanted, superseded=state.superseded + overtaken
        )
    wanted = msgspec.structs.replace(wanted, selected=selected(present(state), wanted.number))
    return msgspec.structs.replace(state, open=wanted, selections=state.selections + 1)


def _calculation(number: int, at: int, window: list[Run]) -> Calculation:
    ranges: dict[str, tuple[int, int]] = {}
    for run in window:
        first, _ = ranges.get(run.instance, (run.first, 0))
        ranges[run.instance] = (first, run.first + run.count)
    since = min((run.at for run in window), default=at)
    return Calculation(number, at, since, ranges, _sum(window))


def _joined(runs: list[Run]) -> list[Run]:
    """A run per instance: what waits for a window that begins where the one before ended.

    All of it is in that window, so its order does not matter, and however long the window is,
    what is kept of it stays small.
    """
    found: dict[str, Run] = {}
    for run in runs:
        known = found.get(run.instance)
        if known is None:
            found[run.instance] = run
        else:
            count = run.first + run.count - known.first
            found[run.instance] = Run(min(known.at, run.at), run.instance, known.first, count)
    return list(found.values())


def _piece(runs: list[Run], start: int, end: int) -> list[Run]:
    """The events from one place in the runs to another."""
    piece, at = [], 0
    for run in runs:
        low, high = max(start - at, 0), min(end - at, run.count)
        if low < high:
            piece.append(Run(run.at, run.instance, run.first + low, high - low))
        at += run.count
    return piece


def _sum(runs: list[Run]) -> int:
    return sum(run.count for run in runs)


def _events(update: Update) -> tuple[int, int]:
    """Size and slide of windows by count."""
    if isinstance(update, EventCount):
        return update.events, update.events
    assert isinstance(update, Sliding)
    return update.size, update.slide


def every_ms(update: Update) -> int:
    """The slide of windows by time; 0 of those by count."""
    if isinstance(update, Duration):
        return update.duration_ms
    return update.slide if isinstance(update, Sliding) and update.units == "ms" else 0


def _in_order(instance: str) -> tuple[int, ...]:
    return tuple(map(int, instance.split(".")))


def _copy(instance: str) -> int:
    return _in_order(instance)[0]
