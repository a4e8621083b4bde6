"""Which tasks of an attempt are silent, who is named for it, and when the attempt is ended. Pure.

Executors tell what each task was found at, with the time by a clock that only goes forward. A
task goes on when it has beaten, began another step, or waits for Spark. One that has not for some
seconds is a *straggler*, and is named again and again, each time after twice as long; at the
limit the attempt is over. One of which nothing comes at all, as it was stopped or never lets
other threads run, is silent in the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import msgspec

from atoll.beats import Beat
from atoll.logs import get_logger
from atoll.microbatch.outcome import ActorFailure

NAMED_SECONDS = 5.0
"""After so long in silence a task is named for the first time."""

SILENT = "E-TASK-SILENT"

_log = get_logger("atoll.microbatch")


@dataclass
class _Known:
    beat: Beat
    since: float
    """When it was first found at what it is at."""
    named_after: float = field(default_factory=lambda: NAMED_SECONDS)


class Straggler(msgspec.Struct, frozen=True):
    """A task that is silent."""

    beat: Beat
    seconds: float
    """For how long."""

    def fields(self, fragments: Mapping[int, str]) -> dict[str, str]:
        """Who it is and where it stands, for people; ``fragments`` are names by a step's number."""
        beat = self.beat
        found = {
            "task": beat.task,
            "unit" if beat.task == "actor" else "number": str(beat.number),
            "fragment": fragments.get(-1 if beat.tag is None else beat.tag, ""),
            "step": beat.step,
            "stack": beat.stack,
        }
        return {name: text for name, text in found.items() if text}


class Stragglers:
    """The tasks of one attempt, as far as they run. Safe to share between threads.

    Args:
        topology: Whose attempt it is.
        limit_seconds: How long a task may be silent.
        fragments: The name of the fragment of each step with state, by its number in the topology.
    """

    def __init__(
        self, topology: str, limit_seconds: float, fragments: Mapping[int, str] | None = None
    ) -> None:
        self.topology = topology
        self.limit_seconds = limit_seconds
        self.fragments = fragments or {}
        self._known: dict[Hashable, _Known] = {}
        self._lock = threading.Lock()

    def heard(self, key: Hashable, beat: Beat, now: float) -> None:
        """A task was found at something; or is asked for it, and nothing came of it yet."""
        with self._lock:
            known = self._known.get(key)
            if known is None or not beat.step or _goes_on(known.beat, beat):
                self._known[key] = _Known(beat, now)
            else:
                known.beat = beat

    def over(self, key: Hashable) -> None:
        """A task has ended."""
        with self._lock:
            self._known.pop(key, None)

    def named(self, now: float) -> list[Straggler]:
        """Those that are to be named now, each of them not before twice as long again."""
        found = []
        with self._lock:
            for known in self._known.values():
                seconds = now - known.since
                if known.beat.step and seconds >= known.named_after:
                    known.named_after = 2 * seconds
                    found.append(Straggler(known.beat, seconds))
        return found

    def lost(self, now: float) -> Straggler | None:
        """One that was silent for too long; the one that was so for longest."""
        with self._lock:
            silent = [Straggler(e.beat, now - e.since) for e in self._known.values() if e.beat.step]
        longest = max(silent, key=lambda each: each.seconds, default=None)
        if longest is None or longest.seconds < self.limit_seconds:
            return None
        return longest

    def look(self, now: float) -> ActorFailure | None:
        """Name those that are to be named in the log; the failure when the attempt is over."""
        for each in self.named(now):
            _log.warning(
                "a task is silent",
                topology=self.topology,
                seconds=round(each.seconds, 1),
                **each.fields(self.fragments),
            )
        lost = self.lost(now)
        return None if lost is None else self.failure(lost)

    def failure(self, lost: Straggler) -> ActorFailure:
        """Why an attempt with such a task has failed."""
        return ActorFailure(
            SILENT,
            f"{lost.beat.task} {lost.beat.number} gave no sign of life for {lost.seconds:.0f} s, "
            f"at: {lost.beat.step}",
            "the stack says where it stands; where a call takes so long for a good reason, raise "
            "topology.task.silence.seconds",
            lost.fields(self.fragments),
        )


def _goes_on(before: Beat, now: Beat) -> bool:
    told = (before.task, before.number, before.count, before.step)
    return told != (now.task, now.number, now.count, now.step)
