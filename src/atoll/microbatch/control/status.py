"""What a topology says of itself, as plain data for people, HTTP and metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from atoll.microbatch.commits.objects import Commit, Plan
from atoll.microbatch.control.telemetry import Telemetry
from atoll.microbatch.events import State
from atoll.microbatch.outcome import ActorFailure, Outcome
from atoll.microbatch.plans import planning
from atoll.microbatch.plans.migrating import left

_RATE_WINDOW_SECONDS = 10.0
MICROBATCHES_TOLD = 256
"""So many of the last microbatches are told of."""
_ATTEMPTS_KEPT = 20
"""So many failed attempts of one microbatch are told of, the last ones."""


@dataclass
class Status:
    """The latest state of a topology; written by its loop, read by anybody."""

    topology: str
    state: State
    durations_ms: dict[str, float] = field(default_factory=dict)
    """Of the last committed microbatch, by numbered step, and ``total``."""
    opened: dict[str, int] = field(default_factory=dict)
    """Of the last attempt that succeeded: how many vnodes were current, behind or absent."""
    opened_total: Counter[str] = field(default_factory=Counter)
    """The same over this life of the topology."""
    logs_applied_total: int = 0
    """How many incremental logs vnodes that were behind or absent needed in this life."""
    actor_runs_total: Counter[str] = field(default_factory=Counter)
    """Actors run in this life: on the worker where they last ran, on another, or for the first
    time."""
    ways: list[str | None] = field(default_factory=list)
    """Of the last attempt that succeeded what ran each job; None for one without work."""
    columns: list[dict[str, str]] = field(default_factory=list)
    """For each column step, with its place, what runs it and why not the tasks."""
    jobs_total: Counter[str] = field(default_factory=Counter)
    """Jobs run in this life, by what ran them."""
    ahead_total: Counter[str] = field(default_factory=Counter)
    """How often reading ahead was begun in this life, and how often an attempt used it."""
    failed_total: Counter[str] = field(default_factory=Counter)
    """Attempts that failed in this life, by the code of their error."""
    cuts_total: int = 0
    """How often a plan was cut smaller in this life."""
    task_timings_ms: dict[str, float] = field(default_factory=dict)
    history: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MICROBATCHES_TOLD))
    """One entry per microbatch committed lately, from the moment on at which readers see it."""
    attempts: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_ATTEMPTS_KEPT))
    """The last attempts that failed of the microbatch that runs, with their reasons."""
    since_ms: int = 0
    """When the present phase began, by the wall clock."""
    hangs: ActorFailure | None = None
    """What is said of a step of the driver's own that hangs for longer than the phase timeout."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    _worker_of: dict[int, str] = field(default_factory=dict)
    _vnode_bytes: dict[tuple[str, int], int] = field(default_factory=dict)
    _worked_seconds: float = 0.0
    _working_since: float | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=1024))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def decided(self, state: State, now_ms: int) -> None:
        """The coordinator decided; the loop's lock is held."""
        before = self.state
        if not self.since_ms or _phase(before) != _phase(state):
            self.since_ms = now_ms
        self.state = state

    def microbatch(self) -> dict[str, Any]:
        """What the topology is at: of the plan that runs, or of the last commit; JSON-able."""
        state, since_ms = self.state, self.since_ms
        plan = state.plan
        found: Plan | Commit = state.last if plan is None else plan
        return {
            "id": found.id,
            "version": state.last.version if plan is None else state.version,
            "phase": state.step.name.lower(),
            "ranges": {name: [list(each) for each in at] for name, at in found.ranges.items()},
            "since_ms": since_ms,
        }

    def published(self, commit: Commit, durations_ms: dict[str, float]) -> None:
        """Remember a commit that readers see from now on."""
        with self._lock:
            self.history.append(
                {
                    **told_of(commit),
                    "failed_attempts": list(self.attempts),
                    **self.telemetry.last,
                    **durations_ms,
                    "tidy": 0.0,
                    "total": sum(durations_ms.values()),
                }
            )
            self.attempts.clear()

    def committed(self, commit_id: int, records: int, durations_ms: dict[str, float]) -> None:
        """Remember how long it took in the end."""
        self.telemetry.committed(durations_ms)
        with self._lock:
            self.durations_ms = durations_ms
            self._recent.append((time.monotonic(), records))
            if self.history and self.history[-1]["id"] == commit_id:
                self.history[-1] = {**self.history[-1], **durations_ms}

    def recent(self) -> list[dict[str, Any]]:
        """The microbatches committed lately, oldest first."""
        with self._lock:
            return list(self.history)

    def attempted(self, outcome: Outcome) -> None:
        """Remember how an attempt that succeeded went."""
        self.telemetry.attempted(outcome)
        self.opened = outcome.opened()
        self.task_timings_ms = outcome.slowest_ms()
        self.ways = [None if job.way is None else str(job.way) for job in outcome.jobs]
        with self._lock:
            self.jobs_total.update(way for way in self.ways if way is not None)
            self.ahead_total["used"] += any(job.ahead for job in outcome.jobs)
            self.opened_total.update(self.opened)
            self.logs_applied_total += outcome.logs_applied()
            self._vnode_bytes.update(outcome.vnode_bytes())
            for unit, worker in outcome.workers():
                before = self._worker_of.get(unit)
                where = "first" if before is None else "same" if before == worker else "other"
                self.actor_runs_total[where] += 1
                self._worker_of[unit] = worker

    def reading_ahead(self) -> None:
        """Remember that the next microbatch is read while one commits."""
        with self._lock:
            self.ahead_total["begun"] += 1

    def failed(self, failure: ActorFailure, at_ms: int) -> None:
        """Remember that an attempt failed, and why."""
        version = self.state.version
        with self._lock:
            self.failed_total[failure.code] += 1
            self.attempts.append({"version": version, "at_ms": at_ms, **_shown(failure)})

    def _failed_attempts(self) -> list[dict[str, Any]]:
        """Those of the microbatch that runs; when none failed yet, of the last one committed."""
        with self._lock:
            last = self.history[-1]["failed_attempts"] if self.history else []
            return list(self.attempts) or list(last)

    def vnode_bytes(self) -> dict[tuple[str, int], int]:
        """By PState and vnode how much room its store takes, where only its worker can tell."""
        with self._lock:
            return dict(self._vnode_bytes)

    def working(self) -> None:
        """The loop begins to work."""
        with self._lock:
            self._working_since = time.monotonic()

    def resting(self) -> None:
        """The loop has worked."""
        with self._lock:
            if self._working_since is not None:
                self._worked_seconds += time.monotonic() - self._working_since
            self._working_since = None

    def worked_seconds(self) -> float:
        """How long the loop has worked, not waited, since it began."""
        with self._lock:
            since = self._working_since
            return self._worked_seconds + (0.0 if since is None else time.monotonic() - since)

    def records_per_second(self) -> float:
        """Over the last ten seconds."""
        now = time.monotonic()
        with self._lock:
            recent = [(at, n) for at, n in self._recent if now - at <= _RATE_WINDOW_SECONDS]
        if not recent:
            return 0.0
        window = max(now - recent[0][0] + self.durations_ms.get("total", 0.0) / 1000.0, 0.001)
        return sum(n for _, n in recent) / window

    def as_dict(
        self,
        published: Commit,
        ends: dict[str, list[int]],
        now_ms: int = 0,
        warnings: Iterable[ActorFailure] = (),
    ) -> dict[str, Any]:
        """JSON-able.

        Args:
            published: What readers see; the coordinator's own state may lag a step behind it.
            ends: The depots' end offsets now, for the lag.
            now_ms: What the clock shows.
            warnings: What is wrong though it runs.
        """
        state = self.state
        done = published.ends()
        failure = state.failure
        return {
            "topology": self.topology,
            "state": str(state.condition),
            "id": max(published.id, 0 if state.plan is None else state.plan.id),
            "committed": published.id,
            "timeline": published.timeline,
            "readable_from": published.readable_from,
            "version": published.version if state.plan is None else state.version,
            "epoch": state.epoch,
            "step": state.step.name.lower(),
            "processed": published.processed,
            "rows": [msgspec.structs.asdict(each) for each in published.rows],
            "lag": {
                depot: [
                    end - at
                    for end, at in zip(depot_ends, _at(done, depot, depot_ends), strict=True)
                ]
                for depot, depot_ends in ends.items()
            },
            "time": {
                "now_ms": published.clocks.now_ms,
                "clock_behind_ms": max(0, published.clocks.now_ms - now_ms) if now_ms else 0,
                "watermarks": dict(published.clocks.watermarks),
                "dropped": dict(published.clocks.dropped),
            },
            "records_per_second": round(self.records_per_second(), 1),
            "durations_ms": {name: round(ms, 2) for name, ms in self.durations_ms.items()},
            **self.telemetry.as_dict(),
            "opened": dict(self.opened),
            "opened_total": dict(self.opened_total),
            "logs_applied_total": self.logs_applied_total,
            "actor_runs_total": dict(self.actor_runs_total),
            "jobs": list(self.ways),
            "jobs_total": dict(self.jobs_total),
            "read_ahead": {each: self.ahead_total[each] for each in ("begun", "used")},
            "columns": [dict(each) for each in self.columns],
            "migrations": left(published, state.migrations),
            "paused": None if state.paused is None else msgspec.structs.asdict(state.paused),
            "attempts_failed": state.failures,
            "failed_attempts": self._failed_attempts(),
            "attempts_failed_total": dict(self.failed_total),
            "cut": _cut(state),
            "cuts_total": self.cuts_total,
            "error": None if failure is None else _shown(failure),
            "warnings": [_shown(each) for each in warnings],
        }


def _phase(state: State) -> tuple[int, int, int]:
    return state.last.id, state.step, state.version


def _at(done: dict[str, list[int]], depot: str, ends: list[int]) -> list[int]:
    """How far each depot partition was read; where nothing is known, all of it."""
    return planning.padded(done[depot], len(ends)) if depot in done else ends


def told_of(commit: Commit) -> dict[str, Any]:
    """What a commit says of its microbatch: which it is, when it was, what it read and changed."""
    return {
        "id": commit.id,
        "version": commit.version,
        "committed_at_ms": commit.committed_at_ms,
        "records": commit.records,
        "ranges": {name: [list(each) for each in at] for name, at in _read(commit)},
        "vnodes": _changed(commit),
        "appended": _appended(commit),
    }


def _read(commit: Commit) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """What a microbatch read, by depot or tick: the depot partitions' offsets."""
    for name, ranges in commit.ranges.items():
        if any(start < end for start, end in ranges):
            yield name, ranges


def _changed(commit: Commit) -> dict[str, int]:
    """How many vnodes of each PState a microbatch changed."""
    counts = {
        name: len({vnode for job in each.logs for log in job for vnode in log.vnodes})
        for name, each in commit.pstates.items()
    }
    return {name: count for name, count in sorted(counts.items()) if count}


def _appended(commit: Commit) -> dict[str, int]:
    """How many rows a microbatch appended to each depot."""
    counts: Counter[str] = Counter()
    for each in commit.appends:
        counts[each.depot] += each.file.rows
    return dict(counts)


def _shown(failure: ActorFailure) -> dict[str, Any]:
    return {
        "code": failure.code,
        "message": failure.message,
        "hint": failure.hint,
        "context": failure.context,
    }


def _cut(state: State) -> dict[str, int] | None:
    """How small microbatches are held because one had to be cut; None when they are not."""
    plan = state.plan
    revision = 0 if plan is None else plan.revision
    if not revision and not state.room:
        return None
    return {
        "revision": revision,
        "records": 0 if plan is None else plan.records,
        "bytes_max": state.room,
    }
