"""What the types ``kafka-consumer`` and ``kafka-producer`` share: clients with settings.

Only settings from a list are taken. A client of Kafka's can be told by its settings to load
classes, log in through modules, and read files; none of that is a definition's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from atoll.runtime.actors.interface import ActorType
from atoll.runtime.problems import Problem, pointer

P = TypeVar("P", bound=msgspec.Struct)

_NO_BROKER = (
    "feed the runtime over POST /api/runtimes/NAME/actors/ACTOR instead: "
    "there is no source or sink for a broker yet"
)


class KafkaClient(ActorType[P]):
    """A type that is a client of a broker, with ``topic`` and ``kafka``, its settings."""

    runs = _NO_BROKER

    usual: ClassVar[Mapping[str, str]]
    """Settings that a definition may leave out."""

    needed: ClassVar[tuple[str, ...]]
    """Settings that it must give."""

    others: ClassVar[tuple[str, ...]]
    """The other settings that it may give."""

    def check(self, params: Any) -> Iterator[Problem]:
        """The settings are those that there are."""
        given, known = params.kafka, sorted({*self.usual, *self.needed, *self.others})
        for name in self.needed:
            if name not in given:
                what = f"the setting {name!r} is missing"
                yield Problem("invalid-actor", "/kafka", what, f"give {name!r}")
        for name, value in given.items():
            path = "/kafka" + pointer(name)
            if name not in known:
                hint = "the settings are: " + ", ".join(known)
                yield Problem("invalid-actor", path, "there is no such setting here", hint)
            elif not value or not value.isprintable():
                yield Problem("invalid-actor", path, "it has no value", "give a printable text")

    def settings(self, params: Any) -> dict[str, str]:
        """The client's settings: those given, over the usual ones."""
        return {**self.usual, **params.kafka}
