"""What a topology's microbatches took, added up over this life: by step, operator and unit.

Written by the topology's loop, read by anybody.
"""

from __future__ import annotations

import bisect
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from atoll.microbatch.outcome import Outcome

BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
"""The upper ends of a histogram's buckets; there is one above the last."""


@dataclass
class Durations:
    """How often something took how long: one histogram."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_SECONDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect.bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.seconds += seconds

    def as_dict(self) -> dict[str, Any]:
        """JSON-able: for each bucket how many took no longer than its end, as Prometheus has it."""
        total, upto = 0, {}
        for end, count in zip((*BUCKETS_SECONDS, "+Inf"), self.counts, strict=True):
            total += count
            upto[str(end)] = total
        return {"count": total, "seconds": self.seconds, "upto": upto}


@dataclass
class Operator:
    """What became of the rows of one step, and how long tasks were at it."""

    rows: int = 0
    out: int = 0
    dropped: int = 0
    rejected: int = 0
    ms: float = 0.0

    def add(self, other: Operator) -> None:
        """Another microbatch's on top."""
        self.rows += other.rows
        self.out += other.out
        self.dropped += other.dropped
        self.rejected += other.rejected
        self.ms += other.ms

    def as_dict(self, step: str) -> dict[str, Any]:
        """JSON-able."""
        return {
            "step": step,
            "rows": self.rows,
            "out": self.out,
            "dropped": self.dropped,
            "rejected": self.rejected,
            "ms": round(self.ms, 3),
        }


def operators_of(outcome: Outcome) -> dict[str, Operator]:
    """What an attempt did, by operator, in the order of the jobs."""
    found: dict[str, Operator] = {}
    for each in outcome.rows:  # two steps of one line and one word are told as one
        of = Operator(each.rows, each.out, each.dropped, each.rejected)
        found.setdefault(each.step, Operator()).add(of)
    for step, millis in outcome.step_ms().items():
        found.setdefault(step, Operator()).ms += millis
    return found


def skew(parts: dict[int, float]) -> float | None:
    """The greatest part over the mean of all: 1 where all are alike; None where all are nothing."""
    total = sum(parts.values())
    return max(parts.values()) * len(parts) / total if total else None


class Telemetry:
    """Sums over this life of a topology, and the last attempt that succeeded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, Durations] = {}
        self._operators: dict[str, Operator] = {}
        self._unit_rows: Counter[int] = Counter()
        self._unit_ms: Counter[int] = Counter()
        self._last: dict[str, Any] = {"operators": [], "skew": {}}

    def attempted(self, outcome: Outcome) -> None:
        """An attempt succeeded."""
        operators = operators_of(outcome)
        rows, millis = outcome.by_unit()
        with self._lock:
            for step, each in operators.items():
                self._operators.setdefault(step, Operator()).add(each)
            self._unit_rows.update(rows)
            self._unit_ms.update(millis)
            ratios = {"rows": skew(dict(rows)), "time": skew(millis)}
            self._last = {
                "operators": [each.as_dict(step) for step, each in operators.items()],
                "skew": {of: round(each, 3) for of, each in ratios.items() if each is not None},
            }

    def committed(self, durations_ms: dict[str, float]) -> None:
        """A microbatch is done."""
        with self._lock:
            for step, millis in durations_ms.items():
                self._steps.setdefault(step, Durations()).add(millis / 1000.0)

    @property
    def last(self) -> dict[str, Any]:
        """Of the last attempt that succeeded its ``operators``, and the ``skew`` of its units."""
        return self._last

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        with self._lock:
            return {
                **self._last,
                "step_seconds": {step: each.as_dict() for step, each in self._steps.items()},
                "operators_total": [e.as_dict(step) for step, e in self._operators.items()],
                "units_total": [
                    {"unit": unit, "rows": self._unit_rows[unit], "ms": round(millis, 3)}
                    for unit, millis in sorted(self._unit_ms.items())
                ],
            }
