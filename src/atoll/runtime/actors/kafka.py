"""What the types ``kafka-consumer`` and ``kafka-producer`` share: the settings of their clients.

Only settings from a list are taken. A client of Kafka's can be told by its settings to load
classes, log in through modules, and read files; none of that is a definition's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from atoll.runtime.problems import Problem, pointer

__all__ = ["NO_BROKER", "setting_misfits"]

NO_BROKER = (
    "feed the runtime over POST /api/runtimes/NAME/actors/ACTOR instead: "
    "there is no source or sink for a broker yet"
)


def setting_misfits(
    given: Mapping[str, str], known: AbstractSet[str], needed: AbstractSet[str]
) -> Iterator[Problem]:
    """Settings that are missing, unknown, or empty."""
    for name in sorted(needed - given.keys()):
        yield Problem(
            "invalid-actor", "/kafka", f"the setting {name!r} is missing", f"give {name!r}"
        )
    for name, value in given.items():
        path = "/kafka" + pointer(name)
        if name not in known:
            hint = "the settings are: " + ", ".join(sorted(known))
            yield Problem("invalid-actor", path, "there is no such setting here", hint)
        elif not value or not value.isprintable():
            yield Problem("invalid-actor", path, "it has no value", "give a printable text")
