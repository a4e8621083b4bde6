"""Statistics of runtimes as Coral tells them: totals, and counters by actor. Pure.

Coral's merge kept the last of two counters of one name; here what is merged is summed, and says of
which copy it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

MESSAGES, EXCEPTIONS = ("json", "shunt"), "failure"
TOTAL = "total"


class Statistics(msgspec.Struct, frozen=True):
    """What some actors have done.

    Args:
        actors: How many there are.
        messages: How many events they took.
        exceptions: How many of these could not be processed.
        counters: By actor and statistic.
    """

    actors: int = 0
    messages: int = 0
    exceptions: int = 0
    counters: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, counters: Mapping[str, Mapping[str, int]], actors: Iterable[str]) -> Self:
        """The statistics of one copy from what it has counted; each actor is there."""
        names = list(actors)
        found = {name: dict(counters.get(name, {})) for name in names}
        found |= {name: dict(each) for name, each in counters.items() if name not in found and each}
        messages = sum(each.get(name, 0) for each in found.values() for name in MESSAGES)
        failed = sum(each.get(EXCEPTIONS, 0) for each in found.values())
        return cls(len(names), messages, failed, found)

    def plus(self, other: Statistics) -> Statistics:
        """Both together; counters of one actor are summed."""
        counters = {name: dict(each) for name, each in self.counters.items()}
        for name, each in other.counters.items():
            counters[name] = dict(Counter(counters.get(name, {})) + Counter(each))
        return Statistics(
            self.actors + other.actors,
            self.messages + other.messages,
            self.exceptions + other.exceptions,
            counters,
        )

    def to_json(self) -> dict[str, Any]:
        """As Coral shows it: ``total`` is the sum over the actors."""
        total: Counter[str] = Counter()
        for each in self.counters.values():
            total.update(each)
        return {
            "totalActors": self.actors,
            "totalMessages": self.messages,
            "totalExceptions": self.exceptions,
            "counters": {**self.counters, TOTAL: dict(total)},
        }

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` shows."""
        counters = {name: each for name, each in shown["counters"].items() if name != TOTAL}
        return cls(shown["totalActors"], shown["totalMessages"], shown["totalExceptions"], counters)
