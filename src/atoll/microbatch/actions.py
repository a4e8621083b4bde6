"""Does what the coordinator asks for, one command at a time, and says what came of it.

This is all of a coordinator's life that touches objects, depots and the executor. It has no
thread, never sleeps and takes the clock from outside, so a test can drive it in any order and
against any store; ``loop`` adds the thread and the waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import msgspec

from atoll.errors import AtollError, BacklogError, FencedError
from atoll.logs import get_logger
from atoll.microbatch import events as ev
from atoll.microbatch.accounts.audit import audit, rows_by_step
from atoll.microbatch.accounts.entries import JobChart
from atoll.microbatch.commits.history import commit_objects, plan_objects
from atoll.microbatch.commits.objects import (
    Commit,
    Plan,
    Ranges,
    Reach,
    decode_commit,
    decode_plan,
    encode,
)
from atoll.microbatch.commits.rollback import Follower, complete_rollback
from atoll.microbatch.commits.tidy import NamedCheckpoints, drop_below, drop_orphans
from atoll.microbatch.control.options import Options
from atoll.microbatch.epochs import Epoch
from atoll.microbatch.executor import AttemptError, Executor
from atoll.microbatch.outcome import ActorFailure, failure_of
from atoll.microbatch.plans.attempts import Tried, begin_attempt, version_reached
from atoll.microbatch.plans.mirrored import MirroredTopologies, lowest_pin, readers_above
from atoll.microbatch.plans.planning import padded
from atoll.microbatch.plans.revisions import create_revision, newest_revision
from atoll.storage.objects import ObjectStore

_log = get_logger("atoll.microbatch")

_BEFORE_COMMIT = (
    ev.CreatePlan,
    ev.Weigh,
    ev.CutPlan,
    ev.RunAttempt,
    ev.CreateCommit,
    ev.GoBack,
)
"""What has no use any more when another coordinator went back meanwhile."""


_ALL = 1 << 62
"""More bytes than there are."""


class DepotOffsets(Protocol):
    """What a coordinator asks of a depot."""

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset that the next record will get."""

    def sizes(self, partition: int, start: int, end: int, enough: int) -> list[tuple[int, int]]:
        """How many bytes the records of a range take, up to as many as are ``enough``.

        Runs of records in order, each with the offset at which it ends and its bytes, from what
        is known of the blocks; no record is read.
        """


@runtime_checkable
class ChecksProgress(Protocol):
    """A depot that can lose what nobody has read yet, since others keep it."""

    def check_progress(
        self, done: Sequence[int], starts: Sequence[int], ends: Sequence[int]
    ) -> None:
        """Nothing, while all after what was read is there.

        Raises:
            OvertakenError: When some of it is gone.
        """


class Room(Protocol):
    """How many rows wait for depots of other modules, and for sinks."""

    def check(self, records_max: int, sink_records_max: int) -> None:
        """Nothing, while less waits than may.

        Raises:
            BacklogError: When no more may be made.
        """

    def status(self) -> dict[str, dict[str, Any]]:
        """By depot of another module what waits."""


@dataclass
class Actions:
    """What one topology's coordinator can do.

    Attributes:
        store: Where plans and commits are made.
        epoch: The life of the coordinator on whose behalf this acts.
        executor: Runs the attempts.
        depots: The depots that the topology reads, by name.
        floor: Commits below it were dropped already.
        now_ms: The wall clock, in milliseconds since 1970. Nothing is decided by it.
        steady_ms: A clock that only goes forward, in milliseconds. How long commits stay readable
            is decided by it.
        deliver: Appends a commit's rows to the depots that they are for, each row once however
            often it is called; says up to which offsets they lie there.
        publish: Moves this process's view to a commit.
        housekeeping: Called as part of step 5.
        starts: For each depot the offsets from which the topology began to read it.
        ticks: The names of the ticks that it reads.
        timeline: The timeline followed.
        littered: Whether an attempt may have left files that no commit names: one of this life
            that failed, or the last one of the life before.
    """

    module: str
    topology: str
    store: ObjectStore
    epoch: Epoch
    executor: Executor
    depots: Mapping[str, DepotOffsets]
    options: Options
    now_ms: Callable[[], int]
    steady_ms: Callable[[], int]
    floor: int = 1
    deliver: Callable[[Commit], Reach] | None = None
    publish: Callable[[Commit], None] | None = None
    housekeeping: Callable[[], None] | None = None
    starts: Mapping[str, list[int]] = field(default_factory=dict)
    ticks: Collection[str] = ()
    timeline: int = 0
    littered: bool = True
    room: Room | None = None
    """What waits of the rows that were sent to depots of other modules; None without any."""
    mirrored: MirroredTopologies | None = None
    """The topologies, of this module and others, whose PStates this one reads."""
    charts: Sequence[JobChart] | None = None
    """What its jobs are known to do with rows; None for an executor that counts nothing."""

    def __post_init__(self) -> None:
        """Follow rollbacks, whoever makes them."""
        self._named = NamedCheckpoints()
        sources = (*self.depots, *self.ticks)
        self._follower = Follower(
            self.store, self.module, self.topology, self.timeline, self.starts, sources
        )

    def perform(self, command: ev.Work) -> ev.Event:
        """Do it, and say how it went. Raises nothing but what a defect raises.

        Every command begins with a look at the epoch: who was fenced changes nothing more.
        """
        try:
            self.epoch.check()
            if isinstance(command, _BEFORE_COMMIT) and self._follower.is_behind():
                return self._follow(command if isinstance(command, ev.GoBack) else None)
            return self._perform(command)
        except FencedError as error:
            return ev.CommitRefused(failure_of(error))
        except AttemptError as error:
            return self._failed(command, error.failure)
        except Exception as error:  # noqa: BLE001 - whatever broke is shown, and tried again
            return self._failed(command, failure_of(error))

    def look(self, last: Commit) -> ev.Event:
        """What the depots hold now, and how much of it is new since the last commit."""
        try:
            self.epoch.check()
            if self._follower.is_behind():
                return self._follow()
            return self._seen(last.ends())
        except FencedError as error:
            return ev.CommitRefused(failure_of(error))
        except (AtollError, OSError) as error:
            return self._failed(None, failure_of(error))

    # Inside ---------------------------------------------------------------------------------------

    def _perform(self, command: ev.Work) -> ev.Event:
        match command:
            case ev.CreatePlan() | ev.Weigh() | ev.CutPlan():
                return self._prime(command)
            case ev.RunAttempt():
                return self._run_attempt(command)
            case ev.CreateCommit():
                return self._create_commit(command)
            case ev.Deliver(commit):
                return ev.Delivered({} if self.deliver is None else self.deliver(commit))
            case ev.Publish(commit):
                if self.publish is not None:
                    self.publish(commit)
                return ev.Published(self.steady_ms())
            case ev.Tidy(commit):
                self._tidy(commit)
                return ev.Tidied()
            case ev.GoBack():
                refused = self._pinned(command) or self._follower.go_back(
                    command, self.epoch.number, self.now_ms()
                )
                return refused or self._follow(command)

    def _pinned(self, command: ev.GoBack) -> ev.RollBackRefused | None:
        """A refusal when a microbatch of another module is reading what would be abandoned."""
        reading = readers_above(self.store, self.module, self.topology, command.to)
        if not reading:
            return None
        failure = ActorFailure(
            "E-USAGE",
            f"a running microbatch of {', '.join(reading)} reads what would be abandoned",
            "try again when it has committed; when it cannot, roll it back to its last one first",
        )
        return ev.RollBackRefused(command.ticket, failure)

    def _follow(self, asked: ev.GoBack | None = None) -> ev.Event:
        """Go on from where a rollback began a new timeline; readers move there at once.

        Whoever was fenced meanwhile stops before that: what it would drop may count elsewhere.
        """
        self.epoch.check()
        event = self._follower.follow(asked)
        if asked is None:
            _log.warning("the topology went back", topology=self.topology, to=event.commit.id)
        self.floor = max(self.floor, event.commit.floor)
        if self.publish is not None:
            self.publish(event.commit)
        self._follower.tidy(event.commit)
        if self.mirrored is not None:
            self.mirrored.release()
        return event

    def _prime(self, command: ev.CreatePlan | ev.Weigh | ev.CutPlan) -> ev.Event:
        match command:
            case ev.CreatePlan():
                return self._create_plan(command)
            case ev.Weigh(plan):
                return ev.Weighed(self._sizes(plan.ranges, _ALL))
        return self._cut_plan(command)

    def _create_plan(self, command: ev.CreatePlan) -> ev.Event:
        plan = command.plan
        if self.mirrored is not None:
            plan = msgspec.structs.replace(plan, mirrors=self.mirrored.pin(plan.id))
        plans = plan_objects(self.store, self.module, self.topology, plan.timeline)
        found = plans.create_or_find(plan.id, encode(plan))
        if found is None:
            return ev.PlanReady(plan)
        there = decode_plan(found)
        own = there.epoch == self.epoch.number  # made, though it was said to have failed
        plan = newest_revision(self.store, self.module, self.topology, there)
        reached = 0 if own else version_reached(self.store, self.module, self.topology, plan)
        return ev.PlanReady(plan, found=True, version=reached)

    def _cut_plan(self, command: ev.CutPlan) -> ev.Event:
        plan = create_revision(self.store, self.module, self.topology, command.plan)
        why = command.why
        _log.warning(
            "plan cut smaller",
            topology=self.topology,
            microbatch=plan.id,
            revision=plan.revision,
            records=plan.records,
            records_before=command.before.records,
            why="the limits were lowered" if why is None else f"{why.message} [{why.code}]",
        )
        return ev.PlanCut(plan)

    def _seen(self, done: Mapping[str, list[int]]) -> ev.Wake:
        """What the depots hold, and how much of it is new since all that is done.

        Raises:
            BacklogError: When so much waits for depots of other modules that nothing is to be read.
            OvertakenError: When what is to be read next of a log is gone.
        """
        if self.room is not None:
            self.room.check(self.options.parcel_records_max, self.options.sink_records_max)
        starts = {name: list(depot.start_offsets()) for name, depot in self.depots.items()}
        ends = {name: list(depot.end_offsets()) for name, depot in self.depots.items()}
        for name, depot in self.depots.items():
            if isinstance(depot, ChecksProgress):
                depot.check_progress(padded(done[name], len(ends[name])), starts[name], ends[name])
        sizes = self._sizes(self._new(done, starts, ends), self.options.microbatch_bytes_max)
        return ev.Wake(starts, ends, self.now_ms(), sizes)

    def _new(
        self,
        done: Mapping[str, list[int]],
        starts: Mapping[str, list[int]],
        ends: Mapping[str, list[int]],
    ) -> Ranges:
        """What the next microbatch may read at most."""
        most = self.options.records_max(ends)
        return {
            depot: [
                (begin, max(begin, min(end, begin + most[depot])))
                for at, start, end in zip(
                    padded(done[depot], len(depot_ends)), starts[depot], depot_ends, strict=True
                )
                for begin in (max(at, start),)
            ]
            for depot, depot_ends in ends.items()
        }

    def _sizes(self, ranges: Ranges, enough: int) -> dict[str, list[list[tuple[int, int]]]]:
        """What the ranges hold, as far as depots know: the rest of them are ticks."""
        return {
            name: [
                depot.sizes(partition, start, end, enough) if start < end else []
                for partition, (start, end) in enumerate(ranges[name])
            ]
            for name, depot in self.depots.items()
        }

    def _run_attempt(self, command: ev.RunAttempt) -> ev.Event:
        timeout = float(self.options.phase_timeout_seconds)
        self.executor.tune(self.options)
        plan = command.plan
        tried = Tried(self.epoch.number, self.now_ms())
        begin_attempt(self.store, self.module, self.topology, plan, command.version, tried)
        if self.mirrored is not None:
            named = self.mirrored.completed(plan.id, plan.mirrors)
            plan = msgspec.structs.replace(plan, mirrors=named)
        run = self.executor.run_carefully if command.careful else self.executor.run
        outcome = run(plan, self.epoch.number, command.version, command.placement, timeout)
        if self.charts is not None:
            audit(self.charts, plan.ranges, command.placement.units, outcome.jobs)
            rows = rows_by_step(self.charts, outcome.jobs)
            outcome = msgspec.structs.replace(outcome, rows=rows)
        pinned = lowest_pin(self.store, self.module, self.topology)
        seen = self._seen_after(plan) if self.options.pipeline else None
        return ev.AttemptSucceeded(outcome, self.now_ms(), pinned, self.steady_ms(), seen)

    def _seen_after(self, plan: Plan) -> ev.Wake | None:
        """What there is to read after a plan, as far as its depots can tell."""
        try:
            return self._seen({name: [end for _, end in at] for name, at in plan.ranges.items()})
        except (AtollError, OSError) as error:  # whoever looks next says what is wrong
            _log.debug("nothing is read ahead", topology=self.topology, error=str(error))
            return None

    def _create_commit(self, command: ev.CreateCommit) -> ev.Event:
        """Create the commit, or go on from the one that an earlier life made under its id."""
        commit = command.commit
        if command.ahead is not None:
            self._read_ahead(command.ahead)
        commits = commit_objects(self.store, self.module, self.topology, commit.timeline)
        found = commits.create_or_find(commit.id, encode(commit))
        if found is None:
            return ev.CommitCreated(commit)
        there = decode_commit(found)
        if there.closing is not None:
            complete_rollback(self.store, self.module, self.topology)
            return self._follow()
        if there.epoch > self.epoch.number:
            self.epoch.check()  # which can say who it was
            raise FencedError(
                f"microbatch {there.id} was committed by epoch {there.epoch}",
                hint="this module now runs in another process; stop this one",
                epoch=self.epoch.number,
            )
        return ev.CommitCreated(there)

    def _read_ahead(self, plan: Plan) -> None:
        try:
            self.executor.read_ahead(plan)
        except Exception as error:  # noqa: BLE001 - who needs the records reads them, and tells
            _log.debug("nothing is read ahead", topology=self.topology, error=str(error))

    def _tidy(self, commit: Commit) -> None:
        try:
            self.executor.forget(commit.id)
            if self.mirrored is not None:
                self.mirrored.release(commit.id)
            drop_below(self.store, self.module, self.topology, self.floor, commit, self._named)
            self.floor = commit.floor
            if self.littered:
                drop_orphans(self.store, self.module, self.topology, commit)
                self.littered = False
            if self.housekeeping is not None:
                self.housekeeping()
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001 - nothing is lost: the next one tries again
            _log.warning("tidy failed", topology=self.topology, error=str(error))

    def _failed(self, command: ev.Work | None, failure: ActorFailure) -> ev.Event:
        """Being fenced explains any failure, such as that of an attempt that was cancelled."""
        self.littered = self.littered or isinstance(command, ev.RunAttempt)
        try:
            self.epoch.check()
        except FencedError as error:
            return ev.CommitRefused(failure_of(error))
        if isinstance(command, ev.GoBack):
            hint = "it may take effect all the same: look at the timeline in the topology's status"
            return ev.RollBackRefused(command.ticket, msgspec.structs.replace(failure, hint=hint))
        delivering = isinstance(command, ev.Deliver)
        what = "no more rows are made" if failure.code == BacklogError.code else "attempt failed"
        _log.warning(
            "delivery failed" if delivering else what,
            topology=self.topology,
            code=failure.code,
            message=failure.message,
            **{f"at_{name}": value for name, value in failure.context.items()},
        )
        if failure.trace:
            _log.debug("trace of the failed attempt", trace=failure.trace)
        return ev.DeliveryFailed(failure) if delivering else ev.AttemptFailed(failure)
