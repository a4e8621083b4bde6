"""The section ``state`` of an actor: which of the four state functions are on, and when they run.

One rule decides which may be on together: ``spark-batch`` and ``log-batch`` both replace the state
by a snapshot of the same log, so only one of them can. Of Coral's table of sixteen combinations
exactly those four are invalid that have both. A stateful actor with none of them could never
change its state; that is refused too. A stateless one has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from atoll.runtime.actors.interface import ActorType, Mode
from atoll.runtime.definition.reading import read, shown
from atoll.runtime.definition.structs import Duration, EventCount, Sliding, StateModes, Update
from atoll.runtime.problems import Problem, pointer, under

_MODES: tuple[Mode, ...] = ("calc-local", "collect-local", "spark-batch", "log-batch")
_COUNT_MAX = 1_000_000_000
_DURATION_MS_MAX = 366 * 86_400_000

Whole = Annotated[int, msgspec.Meta(ge=1, le=_COUNT_MAX)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=100_000_000)]


class DurationGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A length of time: the sum of its parts.

    Args:
        days: Of 24 hours.
        hours: Of 60 minutes.
        minutes: Of 60 seconds.
        seconds: May have decimals; a millisecond is the least.
    """

    days: Amount = 0
    hours: Amount = 0
    minutes: Amount = 0
    seconds: Amount = 0

    @property
    def ms(self) -> int:
        """In milliseconds."""
        return round(
            self.days * 86_400_000
            + self.hours * 3_600_000
            + self.minutes * 60_000
            + self.seconds * 1_000
        )


class WindowGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sliding window.

    Args:
        size: Of what the state is computed: so many last events, or seconds.
        slide: After how many more; as many as ``size`` is the same as no sliding.
        units: What ``size`` and ``slide`` count: ``events`` or ``seconds``.
    """

    size: Whole
    slide: Whole
    units: Literal["events", "seconds"] = "events"


class UpdateGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """When a state function runs: exactly one of these.

    Args:
        event_count: Whenever so many more events have come.
        duration: Whenever so much time has passed.
        sliding_window: Over the last ones.
    """

    event_count: Whole | None = None
    duration: DurationGiven | None = None
    sliding_window: WindowGiven | None = None


class ModeGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state function in its long form.

    Args:
        enabled: Whether it is on.
        update: When it runs; exactly one of ``event-count``, ``duration``, ``sliding-window``.
    """

    enabled: bool = True
    update: UpdateGiven | None = None


_HINTS = {
    "months": "months differ in length: give days",
    "years": "years differ in length: give days",
    "unit": "write 'units'",
}


def read_state(
    given: Any,
    kind: ActorType[Any],
    *,
    log_incoming: bool,
) -> tuple[StateModes, list[Problem]]:
    """The state functions of an actor, and what is wrong with them.

    Args:
        given: The section, or None when there is none.
        kind: The actor's type.
        log_incoming: Whether the actor keeps a log of its incoming events.
    """
    modes: dict[Mode, Update | None] = {}
    if kind.stateful:
        modes["calc-local"] = EventCount(1)
    problems: list[Problem] = []
    if given is not None and not isinstance(given, dict):
        return StateModes(), [_problem("", f"it is {shown(given)}, no object", "give an object")]
    for name, value in (given or {}).items():
        if name not in _MODES:
            hint = "the state functions are " + ", ".join(_MODES)
            problems.append(_problem(pointer(name), f"there is no {shown(name)}", hint))
            continue
        update, found = _read_mode(name, value)
        modes[name] = update
        problems += under(pointer(name), found)
    if not problems:
        problems += _misfits(kind, modes, log_incoming=log_incoming)
    return _as_struct(modes), problems


def combination_misfit(on: frozenset[Mode], *, stateful: bool) -> Problem | None:
    """What is wrong with these state functions being on together, if anything."""
    if {"spark-batch", "log-batch"} <= on:
        what = "spark-batch and log-batch cannot both be on: each replaces the state"
        return _problem("", what, "leave out log-batch where there is Spark, else spark-batch")
    if stateful and not on:
        what = "every state function is off, so the state could never change"
        return _problem("", what, 'leave "state" out, or turn one on')
    return None


def _misfits(
    kind: ActorType[Any], modes: dict[Mode, Update | None], *, log_incoming: bool
) -> Iterator[Problem]:
    on = frozenset(mode for mode, update in modes.items() if update is not None)
    combined = combination_misfit(on, stateful=kind.stateful)
    if combined:
        yield combined
    for mode in sorted(on - kind.modes):
        usual = ", ".join(each for each in _MODES if each in kind.modes)
        hint = f"a {kind.name} has: {usual}" if usual else f"a {kind.name} keeps no state"
        yield _problem(pointer(mode), f"a {kind.name} has no {mode}", hint)
    for mode in sorted(on & {"spark-batch", "log-batch"}):
        if not log_incoming:
            what = f"{mode} computes from the log of incoming events, which is not kept"
            yield _problem(pointer(mode), what, 'write "log": {"incoming": true} beside "state"')


def _read_mode(mode: str, given: Any) -> tuple[Update | None, list[Problem]]:
    """When the function runs, or None when it is off."""
    if isinstance(given, bool):
        return EventCount(1) if given else None, []
    if mode == "calc-local":
        return None, [_problem("", f"it is {shown(given)}", "calc-local is true or false")]
    if not isinstance(given, dict):
        return None, [_problem("", f"it is {shown(given)}", 'give true, or {"update": {...}}')]
    found, problems = read(given, ModeGiven, "state", _HINTS)
    if found is None:
        return None, problems
    update, problems = _read_update(found.update)
    return update if found.enabled else None, problems


def _read_update(given: UpdateGiven | None) -> tuple[Update, list[Problem]]:
    if given is None:
        return EventCount(1), []
    values = [given.event_count, given.duration, given.sliding_window]
    if sum(value is not None for value in values) != 1:
        hint = "give one of event-count, duration and sliding-window"
        return EventCount(1), [_problem("/update", "it should say one thing", hint)]
    if given.event_count is not None:
        return EventCount(given.event_count), []
    if given.duration is not None:
        return _read_duration(given.duration)
    assert given.sliding_window is not None
    return _read_window(given.sliding_window)


def _read_duration(given: DurationGiven) -> tuple[Update, list[Problem]]:
    if 1 <= given.ms <= _DURATION_MS_MAX:
        return Duration(given.ms), []
    hint = "give from a millisecond to 366 days, as days, hours, minutes and seconds"
    return EventCount(1), [_problem("/update/duration", "it is no length of time", hint)]


def _read_window(given: WindowGiven) -> tuple[Update, list[Problem]]:
    if given.slide > given.size:
        what = f"a slide of {given.slide} leaves out what lies between windows of {given.size}"
        problem = _problem("/update/sliding-window/slide", what, "give at most the size")
        return EventCount(1), [problem]
    seconds = given.units == "seconds"
    if given.slide == given.size:
        return (Duration(given.size * 1_000) if seconds else EventCount(given.size)), []
    if seconds:
        return Sliding(given.size * 1_000, given.slide * 1_000, "ms"), []
    return Sliding(given.size, given.slide, "events"), []


def _as_struct(modes: dict[Mode, Update | None]) -> StateModes:
    return StateModes(
        modes.get("calc-local") is not None,
        modes.get("collect-local"),
        modes.get("spark-batch"),
        modes.get("log-batch"),
    )


def _problem(path: str, what: str, hint: str) -> Problem:
    return Problem("state", path, what, hint)
