"""Checks one topology: its plans, its commits, and every file that a commit names.

What a damaged file costs is found by asking, for every vnode, which files its state would be
rebuilt from: a file that no rebuild needs costs nothing but reads as of older microbatches and
rollbacks to them; a file that one needs is the only copy besides the workers' local stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from atoll.errors import AtollError, DamageError, NotFoundError
from atoll.fsck.files import check_change_file, check_rows_file
from atoll.microbatch.commits.history import (
    CommitHistory,
    commit_objects,
    latest_commit,
    plan_objects,
    read_commit,
)
from atoll.microbatch.commits.objects import Commit, Ranges, decode_plan
from atoll.microbatch.commits.recovery import vnodes_needing
from atoll.microbatch.commits.tidy import files_of
from atoll.microbatch.commits.timelines import Timelines, read_timelines
from atoll.microbatch.plans.attempts import attempt_objects
from atoll.microbatch.plans.revisions import (
    committed_plan,
    newest_revision,
    plan_of,
    revision_objects,
)
from atoll.names import sink_named

if TYPE_CHECKING:
    from atoll.fsck.findings import Report
    from atoll.pstate.store.history import FileRef
    from atoll.storage.numbered import NumberedObjects
    from atoll.storage.roots import RootStore


_STOPS = "the topology cannot go on, nor can its PStates be rebuilt: restore it from a backup"
_COST_OF_PLAN = {
    False: "none: its microbatch is committed",
    True: "the topology cannot go on until it is deleted or restored",
}
"""By whether the microbatch of a plan is still to come."""

_FOLDERS = ("logs", "checkpoints", "appends", "staged")


def check_topology(store: RootStore, module: str, topology: str, report: Report) -> None:
    """Add to the report what is wrong with one topology's objects and files."""
    _Check(store, module, topology, report).run()


class _Check:
    def __init__(self, store: RootStore, module: str, topology: str, report: Report) -> None:
        self.store = store
        self.module = module
        self.topology = topology
        self.report = report
        self.bad: dict[str, str] = {}
        """The damaged files, and what is wrong with each."""
        self.timelines = Timelines()

    def run(self) -> None:
        try:
            last = latest_commit(self.store, self.module, self.topology)
            self.timelines = read_timelines(self.store, self.module, self.topology)
            self.report.objects += self.timelines.number
        except (AtollError, msgspec.MsgspecError) as error:
            self.report.damage(_file(error), _said(error), _STOPS)
            return
        commits = self._commits(last)
        self._ranges(commits)
        self._plans(last, commits)
        for commit in commits.values():
            self._files(commit)
        if self.bad:
            self._tell(self._needed(last))
        self._leftovers(last, commits)

    # Objects ------------------------------------------------------------------------------------

    def _commits(self, last: Commit) -> dict[int, Commit]:
        """The commits that count and can be read, by id."""
        found: dict[int, Commit] = {}
        for commit_id in range(last.floor, last.id + 1):
            try:
                commit = read_commit(self.store, self.module, self.topology, commit_id)
                self.report.objects += 1
                if commit.id != commit_id:
                    raise DamageError(
                        f"it says that it is commit {commit.id}", file=f"commit {commit_id}"
                    )
                found[commit_id] = commit
            except NotFoundError as error:
                if commit_id >= latest_commit(self.store, self.module, self.topology).floor:
                    self.report.damage(_file(error), "a commit is missing", _STOPS)
            except (AtollError, msgspec.MsgspecError) as error:
                self.report.damage(_file(error), _said(error), _STOPS)
        return found

    def _ranges(self, commits: dict[int, Commit]) -> None:
        """Each microbatch must begin where the one before it ended."""
        for commit_id, commit in commits.items():
            before = commits.get(commit_id - 1)
            if before is None:
                continue
            ends = before.ends()
            for depot, ranges in commit.ranges.items():
                starts = [start for start, _ in ranges]
                # Retention may have dropped records that nobody had read: then it begins later.
                if depot in ends and any(a < b for a, b in zip(starts, ends[depot], strict=True)):
                    self.report.damage(
                        self._name(commit),
                        f"it reads depot {depot} from {starts}, but {ends[depot]} was done before",
                        "records were counted twice",
                    )

    def _plans(self, last: Commit, commits: dict[int, Commit]) -> None:
        for timeline in range(self.timelines.number + 1):
            plans = plan_objects(self.store, self.module, self.topology, timeline)
            for number in plans.numbers(last.floor):
                if self.timelines.of(number) == timeline:
                    self._plan(plans, number, last, commits.get(number))
            self._revisions(timeline, last)
            self._attempts(timeline)

    def _plan(
        self, plans: NumberedObjects, number: int, last: Commit, commit: Commit | None
    ) -> None:
        name = plans.name(number)
        try:
            plan = decode_plan(plans.read(number))
            self.report.objects += 1
            if commit is not None and commit.revision:
                plan = committed_plan(self.store, self.module, self.topology, commit)
            elif commit is None:
                plan = newest_revision(self.store, self.module, self.topology, plan)
            self.report.objects += plan.revision
        except NotFoundError:
            return  # dropped meanwhile
        except (AtollError, msgspec.MsgspecError) as error:
            cost = _COST_OF_PLAN[number > last.id]
            self.report.damage(_file(error, name), _said(error), cost)
            return
        if commit is not None and commit.clocks.used != plan.watermarks:
            self.report.damage(
                name,
                "the commit of its number went by other watermarks",
                "windows may have closed too early or too late",
            )
        if commit is not None and _read(commit.ranges) != _read(plan.ranges):
            self.report.damage(
                name,
                "the commit of its number covers other records",
                "records were skipped or counted twice",
            )

    def _revisions(self, timeline: int, last: Commit) -> None:
        """Those that others followed, or none, as well: what each says is asked with its plan."""
        revisions = revision_objects(self.store, self.module, self.topology, timeline)
        told = {finding.file for finding in self.report.findings}
        for number in revisions.numbers():
            name = revisions.name(number)
            try:
                revisions.read(number)
            except NotFoundError:
                continue  # dropped meanwhile
            except AtollError as error:
                if name not in told:
                    pending = plan_of(number) > last.id
                    self.report.damage(name, _said(error), _COST_OF_PLAN[pending])

    def _attempts(self, timeline: int) -> None:
        """That one was begun is all that anybody asks of it, and that its name says."""
        attempts = attempt_objects(self.store, self.module, self.topology, timeline)
        for number in attempts.numbers():
            name = attempts.name(number)
            try:
                attempts.read(number)
                self.report.objects += 1
            except NotFoundError:
                continue  # dropped meanwhile
            except AtollError as error:
                self.report.damage(name, _said(error), "none: its name says all that is needed")

    def _name(self, commit: Commit) -> str:
        timeline = self.timelines.of(commit.id)
        return commit_objects(self.store, self.module, self.topology, timeline).name(commit.id)

    # Files --------------------------------------------------------------------------------------

    def _files(self, commit: Commit) -> None:
        for part in commit.pstates.values():
            for log in (log for job in part.logs for log in job):
                problem = check_change_file(self.store, log.file, log.vnodes)
                if self._is_bad(log.file, problem, commit):
                    self.bad[log.file.name] = str(problem)
            for checkpoint in part.checkpoints:
                problem = check_change_file(self.store, checkpoint.file, None)
                if self._is_bad(checkpoint.file, problem, commit):
                    self.bad[checkpoint.file.name] = str(problem)
        for rows in commit.appends:
            problem = check_rows_file(self.store, rows.file)
            if self._is_bad(rows.file, problem, commit):
                self.report.damage(
                    rows.file.name,
                    str(problem),
                    f"if microbatch {commit.id} has not reached {_target(rows.depot)} yet, "
                    f"{rows.file.rows} records of it are lost",
                )

    def _is_bad(self, ref: FileRef, problem: str | None, commit: Commit) -> bool:
        """Whether a file is damaged; one that was dropped with its commit meanwhile is not."""
        self.report.files += 1
        if problem is None:
            self.report.bytes += ref.size
            return False
        return commit.id >= latest_commit(self.store, self.module, self.topology).floor

    def _needed(self, last: Commit) -> dict[str, dict[str, list[int]]]:
        """For each damaged file the vnodes, by PState, whose rebuild needs it."""
        history = CommitHistory(self.store, self.module, self.topology, last)
        return vnodes_needing(history, self.bad)

    def _tell(self, needed: dict[str, dict[str, list[int]]]) -> None:
        for name, problem in sorted(self.bad.items()):
            parts = [
                f"{pstate} (vnodes {_shortened(vnodes)})"
                for pstate, vnodes in needed.get(name, {}).items()
            ]
            cost = "the newest state is safe; older microbatches that need it cannot be read as of"
            if parts:
                cost = (
                    "cannot be rebuilt, so their only copy is in the workers' local stores: "
                    + ", ".join(parts)
                )
            self.report.damage(name, problem, cost)

    # What nobody needs --------------------------------------------------------------------------

    def _leftovers(self, last: Commit, commits: dict[int, Commit]) -> None:
        named = {name for commit in commits.values() for name in files_of(commit)}
        for folder in _FOLDERS:
            for name in self.store.list(f"{self.module}/{self.topology}/{folder}"):
                if name not in named and _microbatch_of(name) <= last.id:
                    self.report.leftover(name, "left by an attempt that did not commit")
        for timeline in range(self.timelines.number):
            objects = commit_objects(self.store, self.module, self.topology, timeline)
            plans = plan_objects(self.store, self.module, self.topology, timeline)
            for each in (objects, plans):
                for number in each.numbers():
                    if self.timelines.of(number) != timeline:
                        self.report.leftover(each.name(number), "a rollback took it back")


def _read(ranges: Ranges) -> Ranges:
    """Of ranges those of depots of which something is read.

    A commit also names those that only a later version than the plan's reads.
    """
    return {
        depot: parts for depot, parts in ranges.items() if any(end > start for start, end in parts)
    }


def _microbatch_of(name: str) -> int:
    digits = next((part[:20] for part in name.split("/") if part[:20].isdecimal()), "0")
    return int(digits)


def _shortened(vnodes: list[int]) -> str:
    shown = ", ".join(map(str, vnodes[:8]))
    return shown if len(vnodes) <= 8 else f"{shown} and {len(vnodes) - 8} more"  # noqa: PLR2004


def _file(error: Exception, otherwise: str = "unknown") -> str:
    return str(getattr(error, "context", {}).get("file", otherwise))


def _said(error: Exception) -> str:
    return error.message if isinstance(error, AtollError) else f"it cannot be read: {error}"


def _target(name: str) -> str:
    sink = sink_named(name)
    return f"depot {name}" if sink is None else f"sink {sink}"
