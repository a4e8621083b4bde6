"""The options of a topology, by the names that users write, checked when they are set.

Durations and sizes carry their unit in the name. An unknown name is refused with the nearest
known one, and one that other systems have and that can mean nothing here with the reason. Each
option is declared once, with its default, its least and its greatest value and its levels. The
former name of one is taken for its present one: it may stand in a module, or on a root.

An option has *levels* at which it can be set: the module, a topology, and for some a depot or a
PState. The most specific level that has a value wins (``tuning``).
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from atoll.errors import DeclarationError
from atoll.logs import get_logger

Level = Literal["module", "topology", "depot", "pstate"]
LEVELS: tuple[Level, ...] = ("module", "topology", "depot", "pstate")

_TOPOLOGY: tuple[Level, ...] = ("module", "topology")

_ACKNOWLEDGED = (
    "tasks do not acknowledge each other: Spark's scheduler tells the driver which have ended, and "
    "one action brings all their manifests"
)
_MEANINGLESS = {
    "topology.microbatch.ack.branching.factor": _ACKNOWLEDGED,
    "topology.microbatch.ack.delay.base.millis": _ACKNOWLEDGED,
    "topology.microbatch.ack.delay.step.millis": _ACKNOWLEDGED,
}
"""Options that other systems have, and why they can mean nothing here."""

_FORMER = {
    "topology.microbatch.pstate.flush.path.count": "pstate.flush.max.entries",
    "worker.combined.transfer.limit": "topology.spark.batch.max.rows",
}
"""Names that options had, and the present ones, which say what is counted."""

_log = get_logger("atoll.microbatch")


_COUNT_MAX = 1_000_000_000
"""The greatest of what counts rows and the like: it fits Arrow's and Spark's 32 bits."""
_BYTES_MAX = 2**40
_DAY_MILLIS = 24 * 3_600_000
_SHOWN_BITS_MAX = 128


def _option(
    name: str, default: int, least: int, most: int, levels: tuple[Level, ...] = _TOPOLOGY
) -> Any:
    bounds = (least, most)
    return field(default=default, metadata={"name": name, "bounds": bounds, "levels": levels})


@dataclass(frozen=True, slots=True)
class Options:
    """How one topology runs. All are whole numbers."""

    microbatch_records_max: int = _option(
        "depot.microbatch.max.records", 250_000, 1, _COUNT_MAX, (*_TOPOLOGY, "depot")
    )
    """The most records that one microbatch takes from one depot partition."""

    microbatch_bytes_max: int = _option(
        "depot.microbatch.max.bytes", 256 * 1024 * 1024, 1, _BYTES_MAX
    )
    """The most bytes of records that one microbatch takes, over all that it reads."""

    filling_records_max: int = _option("topology.filling.max.records", 50_000, 1, _COUNT_MAX)
    """The most records that a microbatch takes from one depot partition which fills new PStates."""

    fetch_records_max: int = _option(
        "depot.max.fetch", 65_536, 1, _COUNT_MAX, (*_TOPOLOGY, "depot")
    )
    """The most records that a reading task hands to the steps at once."""

    phase_timeout_seconds: int = _option(
        "topology.microbatch.phase.timeout.seconds", 600, 1, 30 * 24 * 3_600
    )
    """How long the jobs of an attempt (step 2) may take before they are ended and tried again."""

    silence_seconds: int = _option("topology.task.silence.seconds", 120, 1, 30 * 24 * 3_600)
    """How long a task may give no sign of life before its attempt is ended and tried again."""

    empty_sleep_millis: int = _option(
        "topology.microbatch.empty.sleep.time.millis", 100, 1, _DAY_MILLIS
    )
    """How long to wait after finding nothing new; an append in this process ends the wait."""

    flush_entries_max: int = _option(
        "pstate.flush.max.entries", 100_000, 1, _COUNT_MAX, (*_TOPOLOGY, "pstate")
    )
    """How many entries that a function wrote wait before they are handed to the store."""

    combiner_rows_max: int = _option("topology.combiner.limit", 1_000_000, 1, _COUNT_MAX)
    """How many rows a task collects before it folds them into partial aggregates."""

    spark_batch_rows_max: int = _option("topology.spark.batch.max.rows", 10_000, 1, _COUNT_MAX)
    """How many packed rows Spark moves between its processes at once."""

    history_microbatches: int = _option("pstate.history.microbatches", 2, 2, 1_000_000)
    """How many microbatches back the state stays readable at least."""

    history_seconds: int = _option("pstate.history.seconds", 30, 0, _DAY_MILLIS // 1000)
    """For how long at least the state after a microbatch stays readable once it is not the last."""

    checkpoint_commits: int = _option("pstate.checkpoint.interval.commits", 100, 1, 1_000_000)
    """Within how many commits every changed vnode is written to a checkpoint."""

    migration_vnodes_max: int = _option(
        "pstate.migration.vnodes.per.microbatch", 8, 1, 65_536, (*_TOPOLOGY, "pstate")
    )
    """How many vnodes a microbatch rewrites for a migration, besides those it writes to."""

    retry_attempts_max: int = _option("topology.microbatch.retry.max.attempts", 10, 1, _COUNT_MAX)
    """How many attempts at one microbatch may fail before the topology stops as failed."""

    retry_delay_millis_max: int = _option(
        "topology.microbatch.retry.delay.max.millis", 5_000, 1, _DAY_MILLIS
    )
    """The cap of the delay between attempts; it starts at 50 ms and doubles."""

    small_records_max: int = _option("topology.microbatch.small.max.records", 20_000, 0, _COUNT_MAX)
    """Up to how many records a microbatch runs without an exchange, each actor reading all."""

    pipeline: int = _option("topology.microbatch.pipeline", 0, 0, 1)
    """1: while a microbatch commits, the next one is read and packed."""

    parcel_records_max: int = _option("topology.parcels.max.records", 1_000_000, 1, _COUNT_MAX)
    """How many rows may wait for a depot of another module before no more are made."""

    sink_records_max: int = _option("topology.sinks.max.records", 100_000_000, 1, _COUNT_MAX)
    """How many rows may wait for a sink before no more are made; none is ever dropped."""

    recovery_check_seconds: int = _option(
        "topology.recovery.check.interval.seconds", 60, 1, _DAY_MILLIS // 1000
    )
    """How often some of the files that recovery needs are looked for."""

    by_depot: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each depot that has values of its own, these, by public name."""

    by_pstate: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The same for PStates."""

    def with_values(self, values: Mapping[str, int]) -> Options:
        """These options with some set by their public names.

        Raises:
            DeclarationError: When a name is unknown or a value is out of range.
        """
        for name, value in values.items():
            check_option(name, value)
        changes: dict[str, Any] = {
            _KNOWN[name].name: value for name, value in by_present_name(values).items()
        }
        return replace(self, **changes)

    def by_name(self) -> dict[str, int]:
        """All options by their public names."""
        return {name: getattr(self, each.name) for name, each in _KNOWN.items()}

    @property
    def history_millis(self) -> int:
        """:attr:`history_seconds` in milliseconds."""
        return self.history_seconds * 1000

    def for_depot(self, depot: str) -> Options:
        """The options as they are for one depot."""
        return self.with_values(self.by_depot.get(depot, {}))

    def for_pstate(self, pstate: str) -> Options:
        """The options as they are for one PState."""
        return self.with_values(self.by_pstate.get(pstate, {}))

    def records_max(self, depots: Iterable[str]) -> dict[str, int]:
        """For each depot the most records that a microbatch takes from one partition of it."""
        return {name: self.for_depot(name).microbatch_records_max for name in depots}


_KNOWN = {each.metadata["name"]: each for each in fields(Options) if "name" in each.metadata}


@functools.cache
def present_name(name: str) -> str:
    """The name that an option has now; a former one is said once in the log."""
    if name in _FORMER:
        _log.warning("an option has another name", option=name, now=_FORMER[name])
    return _FORMER.get(name, name)


def by_present_name(values: Mapping[str, int]) -> dict[str, int]:
    """Values by the present names; where both are given, the present one's counts."""
    former = {present_name(name): value for name, value in values.items() if name in _FORMER}
    return former | {name: value for name, value in values.items() if name not in _FORMER}


def levels_of(name: str) -> tuple[Level, ...]:
    """The levels at which an option can be set; none when there is no such option."""
    name = present_name(name)
    return _KNOWN[name].metadata["levels"] if name in _KNOWN else ()


def bounds_of(name: str) -> tuple[int, int]:
    """The least and the greatest value of a known option."""
    least, most = _KNOWN[present_name(name)].metadata["bounds"]
    return least, most


def within_bounds(name: str, value: int) -> int:
    """The value of a known option that is nearest to one stored when its bounds were others."""
    least, most = bounds_of(name)
    return min(max(value, least), most)


def check_option_name(name: str) -> None:
    """Hold that there is such an option.

    Raises:
        DeclarationError: With the nearest name, or why the option means nothing here.
    """
    if name in _MEANINGLESS:
        raise DeclarationError(
            f"option {name!r} can mean nothing here: {_MEANINGLESS[name]}",
            hint="leave it out",
        )
    if present_name(name) not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        raise DeclarationError(
            f"there is no option {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(_KNOWN),
        )


def check_option(name: str, value: object) -> None:
    """Hold that there is such an option and that it can have the value.

    Raises:
        DeclarationError: With the nearest name, the bounds, or why the option means nothing here.
    """
    check_option_name(name)
    least, most = bounds_of(name)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return
    is_long = isinstance(value, int) and value.bit_length() > _SHOWN_BITS_MAX
    shown = "one with so many digits" if is_long else repr(value)
    raise DeclarationError(
        f"option {name!r} must be a whole number from {least} to {most}, not {shown}"
    )
