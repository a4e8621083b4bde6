"""The options of a topology, by the names that users write, checked when they are set.

Durations and sizes carry their unit in the name. An unknown name is refused with the nearest
known one.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields, replace
from typing import Any

from atoll.errors import DeclarationError

__all__ = ["Options"]


def _option(name: str, default: int, least: int) -> Any:
    return field(default=default, metadata={"name": name, "least": least})


@dataclass(frozen=True, slots=True)
class Options:
    """How one topology runs. All are whole numbers."""

    microbatch_records_max: int = _option("depot.microbatch.max.records", 250_000, 1)
    """The most records that one microbatch takes from one depot partition."""

    phase_timeout_seconds: int = _option("topology.microbatch.phase.timeout.seconds", 600, 1)
    """How long the jobs of an attempt (step 2) may take before they are ended and tried again."""

    empty_sleep_millis: int = _option("topology.microbatch.empty.sleep.time.millis", 100, 1)
    """How long to wait after finding nothing new; an append in this process ends the wait."""

    history_microbatches: int = _option("pstate.history.microbatches", 2, 2)
    """How many microbatches back the state stays readable directly."""

    checkpoint_commits: int = _option("pstate.checkpoint.interval.commits", 100, 1)
    """Within how many commits every changed vnode is written to a checkpoint."""

    retry_attempts_max: int = _option("topology.microbatch.retry.max.attempts", 10, 1)
    """How many attempts at one microbatch may fail before the topology stops as failed."""

    retry_delay_millis_max: int = _option("topology.microbatch.retry.delay.max.millis", 5_000, 1)
    """The cap of the delay between attempts; it starts at 50 ms and doubles."""

    small_records_max: int = _option("topology.microbatch.small.max.records", 20_000, 0)
    """Up to how many records a microbatch runs without an exchange, each actor reading all."""

    def with_values(self, values: dict[str, int]) -> Options:
        """These options with some set by their public names.

        Raises:
            DeclarationError: When a name is unknown or a value is out of range.
        """
        known = {each.metadata["name"]: each for each in fields(self)}
        changes: dict[str, int] = {}
        for name, value in values.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise DeclarationError(
                    f"there is no option {name!r}",
                    hint=f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(known),
                )
            least = known[name].metadata["least"]
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DeclarationError(
                    f"option {name!r} must be a whole number of at least {least}, not {value!r}"
                )
            changes[known[name].name] = value
        return replace(self, **changes)

    def by_name(self) -> dict[str, int]:
        """All options by their public names."""
        return {each.metadata["name"]: getattr(self, each.name) for each in fields(self)}
