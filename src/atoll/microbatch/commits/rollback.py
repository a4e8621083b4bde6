"""Going back to an earlier commit: what is decided, and what is done.

The first half is the coordinator's, pure; the second is what ``actions`` does for it. In between
stands one numbered object (``timelines``): before it nothing has happened, after it all has. A
mark in the place of the next commit keeps every coordinator from committing in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from atoll.logs import get_logger
from atoll.microbatch import events as ev
from atoll.microbatch.commits.history import commit_objects, latest_commit, read_commit
from atoll.microbatch.commits.joining import joined_after
from atoll.microbatch.commits.objects import GENESIS, Branch, Commit, decode_commit, encode
from atoll.microbatch.commits.progress import known_checkpoints, settle_commit, with_starts
from atoll.microbatch.commits.tidy import drop_abandoned
from atoll.microbatch.commits.timelines import (
    create_timeline,
    read_timelines,
    timeline_objects,
)
from atoll.microbatch.control.pausing import paused
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.parcels.sink_box import sink_identity
from atoll.names import sink_named
from atoll.storage.glances import Glance
from atoll.storage.objects import ObjectExistsError, ObjectStore

_log = get_logger("atoll.microbatch")

_OTHER_FIRST = ActorFailure(
    "E-USAGE",
    "the topology went back elsewhere first",
    "look at the topology's status; go back again if need be",
)


def refusal(state: ev.State, event: ev.RollBack) -> ActorFailure | None:
    """Why a topology cannot go back to that commit now; None when it can."""
    last = state.last
    context = {"topology_microbatch": str(last.id)}
    joined = joined_after(last, event.to)
    if joined and event.to >= last.readable_from:
        name, since = min(joined.items())
        return ActorFailure(
            "E-USAGE",
            f"cannot go back to microbatch {event.to}: {name} was filled and joined with "
            f"microbatch {since}, and has no state as of an earlier one",
            f"possible are {max(since, last.readable_from)} to {last.id}",
            context,
        )
    if not last.readable_from <= event.to <= last.id:
        return ActorFailure(
            "E-USAGE",
            f"cannot go back to microbatch {event.to}",
            f"possible are {last.readable_from} to {last.id}; options "
            "pstate.history.seconds and pstate.history.microbatches keep more",
            context,
        )
    if state.step not in (ev.Step.IDLE, ev.Step.PRIME, ev.Step.PROCESS):
        return ActorFailure(
            "E-USAGE",
            f"cannot go back while microbatch {last.id + 1} is being delivered",
            "try again when its rows are in their depots",
            context,
        )
    return None


def rolled_back(state: ev.State, event: ev.RolledBack) -> ev.State:
    """The coordinator after a rollback: at the commit gone back to, paused, with nothing begun."""
    return replace(
        state,
        step=ev.Step.IDLE,
        condition=ev.Condition.PAUSED,
        paused=event.paused,
        version=0,
        plan=None,
        failures=0,
        failure=None,
        commit=None,
        last=event.commit,
        checkpoints=event.checkpoints,
        heads=state.heads.upto(event.commit.id),
        blamed=0,
        owed=(),
        asked=replace(state.asked, planned=state.asked.answered),
        answer=ev.Answer(event.ticket, event.failure) if event.ticket else state.answer,
    )


def complete_rollback(store: ObjectStore, module: str, topology: str) -> None:
    """Begin the timeline of a rollback that closed the one before it and went no further.

    Anybody may do it, and a new life of the coordinator must, before it reads the progress.
    """
    timelines = read_timelines(store, module, topology)
    commits = commit_objects(store, module, topology, timelines.number)
    number = commits.latest()
    closing = None if number is None else decode_commit(commits.read(number)).closing
    if number is None or closing is None:
        return
    commits.settle(number)
    with contextlib.suppress(ObjectExistsError):
        create_timeline(store, module, topology, timelines.number + 1, closing)
    timeline_objects(store, module, topology).settle(timelines.number + 1)


def appended_since(
    store: ObjectStore, module: str, topology: str, last: Commit, to: int
) -> dict[str, int]:
    """How many rows the commits behind one appended, by depot, and by sink."""
    timelines = read_timelines(store, module, topology, last.timeline)
    counts: dict[str, int] = {}
    for number in range(to + 1, last.id + 1):
        commit = read_commit(store, module, topology, number, timelines)
        for rows in commit.appends:
            counts[rows.depot] = counts.get(rows.depot, 0) + rows.file.rows
    return counts


def followed_since(
    store: ObjectStore, module: str, topology: str, last: Commit, to: int
) -> ActorFailure | None:
    """A refusal to go back behind changes of PStates that sinks follow; None when there are none.

    The topology would go on from another state than they hold, and an entry that no new microbatch
    changes would stay wrong there for ever. A sink that was removed since follows nothing.
    """
    timelines = read_timelines(store, module, topology, last.timeline)
    named = {
        sink_named(rows.depot) or rows.depot
        for number in range(to + 1, last.id + 1)
        for rows in read_commit(store, module, topology, number, timelines).appends
        if rows.kind == "changes"
    }
    sinks = [name for name in named if sink_identity(store, module, topology, name).exists(1)]
    if not sinks:
        return None
    remove = ", ".join(f"sink:{name}" for name in sorted(sinks))
    return ActorFailure(
        "E-USAGE",
        f"microbatches {to + 1} to {last.id} changed a PState that sinks follow: "
        f"{', '.join(sorted(sinks))}",
        f"deploy the module without them, with {remove} removed; then go back, declare sinks "
        "of other names, and give their targets an export of the PState",
    )


def rollback_plan(
    store: ObjectStore, module: str, topology: str, state: ev.State, to: int
) -> dict[str, Any]:
    """What going back to a commit would do now, as plain data; changes nothing.

    ``microbatches`` would be abandoned, ``records`` read again; rows that they ``appended`` to
    depots, by depot, would stay there. ``refused`` is why it cannot be, else None.
    """
    last = state.last
    plan: dict[str, Any] = {"to": to, "last": last.id, "possible": [last.readable_from, last.id]}
    refused = refusal(state, ev.RollBack(1, to))
    refused = refused or followed_since(store, module, topology, last, to)
    if refused is not None:
        told = {"code": refused.code, "message": refused.message, "hint": refused.hint}
        return {**plan, "refused": told}
    timelines = read_timelines(store, module, topology, last.timeline)
    kept = read_commit(store, module, topology, to, timelines) if to else GENESIS
    return {
        **plan,
        "refused": None,
        "microbatches": last.id - to,
        "records": last.processed - kept.processed,
        "appended": appended_since(store, module, topology, last, to),
        "state_of_ms": kept.committed_at_ms or None,
    }


@dataclass
class Follower:
    """Keeps one topology's coordinator on the newest timeline.

    Attributes:
        timeline: The one that the coordinator follows.
        starts: For each depot the offsets from which the topology began to read it.
        depots: The names of the depots that it reads.
    """

    store: ObjectStore
    module: str
    topology: str
    timeline: int = 0
    starts: Mapping[str, list[int]] = field(default_factory=dict)
    depots: Iterable[str] = ()

    def __post_init__(self) -> None:
        """Nothing was looked at."""
        self._glance = Glance(self.store)

    def is_behind(self) -> bool:
        """Whether somebody went back who is not this coordinator.

        One system call, or a request now and then: a commit on a timeline that is over is not
        made, whatever was seen here.
        """
        objects = timeline_objects(self.store, self.module, self.topology)
        return self._glance.exists(objects.name(self.timeline + 1))

    def go_back(self, command: ev.GoBack, epoch: int, now_ms: int) -> ev.RollBackRefused | None:
        """Begin a new timeline at the commit wanted; :meth:`follow` then goes on from there.

        Returns:
            A refusal, or None when a new timeline began: this one, or that of another coordinator
            that was faster.
        """
        last = command.last
        followed = followed_since(self.store, self.module, self.topology, last, command.to)
        if followed is not None:
            return ev.RollBackRefused(command.ticket, followed)
        appended = appended_since(self.store, self.module, self.topology, last, command.to)
        if appended and not command.keep_appended:
            rows = ", ".join(f"{count:,} in {depot}" for depot, count in sorted(appended.items()))
            failure = ActorFailure(
                "E-USAGE",
                f"microbatches {command.to + 1} to {last.id} appended rows to depots"
                f"{' or sinks' if any(map(sink_named, appended)) else ''}, which cannot be taken "
                "back",
                f"keep them and have the new microbatches append again: --keep-appended ({rows})",
                {depot: str(count) for depot, count in appended.items()},
            )
            return ev.RollBackRefused(command.ticket, failure)
        branch = Branch(command.to, epoch, now_ms, last.floor, last.readable_from, pauses=True)
        if not self._close(last, branch):
            return ev.RollBackRefused(command.ticket, _OTHER_FIRST)
        complete_rollback(self.store, self.module, self.topology)
        return None

    def _close(self, last: Commit, branch: Branch) -> bool:
        """Take the id after the last commit, so that no commit can; False when one has."""
        commits = commit_objects(self.store, self.module, self.topology, self.timeline)
        mark = msgspec.structs.replace(
            GENESIS, id=last.id + 1, timeline=self.timeline, epoch=branch.epoch, closing=branch
        )
        found = commits.create_or_find(mark.id, encode(mark))
        if found is not None:
            return decode_commit(found).closing is not None
        if commits.latest() == mark.id:
            return True
        # A later life has committed that id and dropped it since: this one slept for long.
        commits.store.delete(commits.name(mark.id))
        return False

    def follow(self, asked: ev.GoBack | None = None) -> ev.RolledBack:
        """Take over the newest timeline, whoever began it.

        A request to go back that meets it is answered: with a refusal if it leads elsewhere.
        """
        head = latest_commit(self.store, self.module, self.topology)
        settle_commit(self.store, self.module, self.topology, head)
        checkpoints = known_checkpoints(self.store, self.module, self.topology, head)
        begun = with_starts(head, self.starts, self.depots)
        self.timeline = head.timeline
        rests = paused(self.store, self.module, self.topology)
        if asked is None:
            return ev.RolledBack(begun, checkpoints, paused=rests)
        failure = None if head.id == asked.to else _OTHER_FIRST
        return ev.RolledBack(begun, checkpoints, asked.ticket, failure, rests)

    def tidy(self, head: Commit) -> None:
        """Drop what only abandoned commits need; what fails is done by the next start."""
        try:
            drop_abandoned(self.store, self.module, self.topology, head)
        except Exception as error:  # noqa: BLE001 - nothing is lost by a file too many
            _log.warning("tidy failed", topology=self.topology, error=str(error))
