"""What is wrong with a topology that runs all the same, in the words that people see. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from atoll.errors import DamageError
from atoll.microbatch.commits.recovery import LostFile
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.stragglers import Straggler

CLOCK_BEHIND = "W-CLOCK-BEHIND"
STEP_HANGS = "W-STEP-HANGS"
_BEHIND_MS_MAX = 1_000
"""A clock that is set back by less is not worth a word: it is slewed every day."""
_SHOWN_MAX = 5


def clock_warning(time_ms: int, now_ms: int, waiting: Collection[str]) -> ActorFailure | None:
    """That processing time stands still, how long it will, and what waits for it.

    Args:
        time_ms: Processing time of the last microbatch.
        now_ms: What the clock shows.
        waiting: What goes by processing time in the topology, in words.
    """
    behind_ms = time_ms - now_ms
    if behind_ms <= _BEHIND_MS_MAX:
        return None
    until = dt.datetime.fromtimestamp(time_ms / 1000, tz=dt.UTC)
    waits = ", ".join(waiting) or "nothing that is declared"
    return ActorFailure(
        CLOCK_BEHIND,
        f"processing time stands still for {_length(behind_ms)}: the clock was ahead, "
        "or has been set back",
        "set the clock right if it is wrong; else wait, or roll back to a microbatch from before "
        "the clock was ahead",
        {"until": until.isoformat(timespec="seconds"), "waits": waits},
    )


def step_warning(lost: Straggler) -> ActorFailure:
    """That a numbered step of the driver's own hangs, which nothing but its process's end ends."""
    beat = lost.beat
    return ActorFailure(
        STEP_HANGS,
        f"step {beat.number} of the microbatch, the driver's own work on its storage, has given no "
        f"sign of life for longer than the phase timeout, at: {beat.step}",
        "see whether the storage answers: when it does, the step goes on; a call that never "
        "returns ends with its process alone, and another one goes on from what is durable",
        {"stack": beat.stack},
    )


def lost_files_warning(module: str, topology: str, lost: Sequence[LostFile]) -> ActorFailure | None:
    """That state cannot be rebuilt any more, and how to save it."""
    if not lost:
        return None
    vnodes = {(pstate, v) for each in lost for pstate, found in each.vnodes.items() for v in found}
    pstates = ", ".join(sorted({pstate for pstate, _ in vnodes}))
    return ActorFailure(
        DamageError.code,
        f"{len(lost)} files that recovery needs are lost: {len(vnodes)} vnodes of {pstates} are "
        "only in the workers' local stores",
        f"run atoll checkpoint {module} {topology} now, while these stores exist; or restore the "
        "files from a backup",
        {"files": ", ".join(_shown([f"{each.file} {each.what}" for each in lost]))},
    )


def lost_depot_warning(depot: str, segments: Sequence[str]) -> ActorFailure | None:
    """That records of a depot are gone."""
    if not segments:
        return None
    return ActorFailure(
        DamageError.code,
        f"depot {depot!r} has lost {len(segments)} segments: their records cannot be read any more",
        "restore the files from a backup",
        {"depot": depot, "files": ", ".join(_shown(segments))},
    )


def _shown(names: Sequence[str]) -> list[str]:
    more = len(names) - _SHOWN_MAX
    return [*names[:_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]


def _length(millis: int) -> str:
    """A length of time in its two largest units."""
    seconds = -(-millis // 1000)
    parts = []
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}" + ("s" if count > 1 else ""))
    return " ".join(parts[:2])
