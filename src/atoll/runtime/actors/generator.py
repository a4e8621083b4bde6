"""The type ``generator``: see the class."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import msgspec

from atoll.runtime.actors.interface import ActorType, Event, Given, Result, State

_AT_ONCE_MAX = 1_000
_NUMBER = r"\s*([+-]?\d{1,20}(?:\.\d{1,20})?)\s*"
_NORMAL = re.compile(rf"N\({_NUMBER},{_NUMBER}\)\Z")
_UNIFORM = re.compile(rf"U\({_NUMBER}\)\Z")
_CHOICE = re.compile(r"\[\s*'[^']*'\s*(?:,\s*'[^']*'\s*)*\]\Z")
_CHOSEN = re.compile(r"'([^']*)'")

Draw = Callable[[random.Random], Any]


class TimerParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a generator emits.

    Args:
        rate: Events per second, at most 100,000; 0 for none.
        times: How many in all; none below 1, and without end unless given.
        delay: Seconds before the first; below 0 is 0.
    """

    rate: Annotated[float, msgspec.Meta(ge=0, le=100_000)]
    times: int | None = None
    delay: Annotated[float, msgspec.Meta(le=86_400 * 366)] = 0.0


class GeneratorParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a generator.

    Args:
        format: The event to emit, in which some texts stand for chance: ``N(100, 10)`` for a
            number around 100 with a deviation of 10, ``U(100)`` for one from 0 to 100, and
            ``['a', 'b']`` for one of these texts. Any other text is itself.
        timer: When.
    """

    format: dict[str, Any]
    timer: TimerParams


class Generator(ActorType[GeneratorParams]):
    """Emits made-up events at a steady rate while the runtime runs.

    Values are drawn from the generator's identity and the number of the event, so a microbatch that
    is tried again makes the same ones. A restart goes on counting and begins a new clock.
    """

    name = "generator"
    params = GeneratorParams
    stateful = True
    entry = True
    fields = ("rate", "times", "delay", "format", "count")
    modes = frozenset({"calc-local"})
    example: ClassVar[dict[str, Any]] = {
        "format": {"amount": "N(100, 10)", "city": "['amsterdam', 'ghent']", "age": "U(90)"},
        "timer": {"rate": 10, "times": 100, "delay": 0.5},
    }

    def initial(self, params: GeneratorParams) -> State:
        """Not started: nothing is due."""
        return {"count": 0, "base": 0, "since": None}

    def started(self, params: GeneratorParams, state: State, given: Given) -> State:
        """The clock begins now, with the number of the next event."""
        return {**state, "base": state["count"], "since": given.at_ms}

    def trigger(self, params: GeneratorParams, state: State, event: Event, given: Given) -> Result:
        """Nothing: events are not sent here."""
        return Result(state, failure="a generator takes no events")

    def due(self, params: GeneratorParams, state: State) -> int | None:
        """When the next event should be emitted."""
        timer = params.timer
        if state["since"] is None or not timer.rate:
            return None
        if timer.times is not None and state["count"] >= timer.times:
            return None
        first: int = state["since"] + round(max(timer.delay, 0.0) * 1_000)
        emitted: int = state["count"] - state["base"]
        return first + math.ceil(emitted * 1_000 / timer.rate)

    def tick(self, params: GeneratorParams, state: State, given: Given) -> Result:
        """All that is due, up to 1,000 at once."""
        emitted: list[Event] = []
        while len(emitted) < _AT_ONCE_MAX:
            due = self.due(params, state)
            if due is None or due > given.at_ms:
                break
            # The text is the seed as a whole; that of Python's own hash would differ by process.
            chance = random.Random(f"{given.identity}#{state['count']}")  # noqa: S311
            emitted.append(make(params.format, chance))
            state = {**state, "count": state["count"] + 1}
        return Result(state, tuple(emitted))

    def read(self, params: GeneratorParams, state: State) -> dict[str, Any]:
        """Its timer, its format, and how many it has emitted."""
        timer = params.timer
        return {
            "rate": timer.rate,
            "times": timer.times,
            "delay": max(timer.delay, 0.0),
            "format": params.format,
            "count": state["count"],
        }


def make(given: Any, chance: random.Random) -> Any:
    """A format with its texts drawn."""
    match given:
        case str():
            return _draw(given)(chance)
        case dict():
            return {name: make(value, chance) for name, value in given.items()}
        case list():
            return [make(value, chance) for value in given]
    return given


@lru_cache(maxsize=1024)
def _draw(text: str) -> Draw:
    """How to draw what a text stands for."""
    if match := _NORMAL.match(text):
        mean, deviation = map(float, match.groups())
        return lambda chance: chance.gauss(mean, deviation)
    if match := _UNIFORM.match(text):
        most = float(match[1])
        return lambda chance: chance.uniform(0.0, most)
    if _CHOICE.match(text):
        choices = _CHOSEN.findall(text)
        return lambda chance: chance.choice(choices)
    return lambda _: text
