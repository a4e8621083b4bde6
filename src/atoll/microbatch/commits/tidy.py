"""Step 5: drop the plans, commits and files that no recovery and no reader needs any more.

Order matters for a crash in between: files first, then the commit that names them, lowest id
first. What a failed attempt left is found by name: only the tokens of its commit count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from atoll.errors import DamageError, NotFoundError
from atoll.microbatch.commits.history import commit_objects, read_commit
from atoll.microbatch.commits.objects import Commit, decode_commit
from atoll.microbatch.commits.timelines import Timelines, read_timelines, timeline_objects
from atoll.microbatch.plans.revisions import delete_plan, delete_plans_above, delete_plans_below
from atoll.pstate.store.history import FileRef
from atoll.storage.glances import delete_each
from atoll.storage.objects import ObjectStore

_FOLDERS = ("logs", "checkpoints", "staged", "appends")


def refs_of(commit: Commit) -> Iterator[FileRef]:
    """The files of state that a commit names."""
    for part in commit.pstates.values():
        yield from (log.file for job in part.logs for log in job)
        yield from (checkpoint.file for checkpoint in part.checkpoints)


def files_of(commit: Commit) -> Iterator[str]:
    """The names of all files that a commit names."""
    yield from (ref.name for ref in refs_of(commit))
    yield from (rows.file.name for rows in commit.appends)


@dataclass
class NamedCheckpoints:
    """Which commit names each checkpoint file last: the one kind of file that several may name.

    So that dropping a commit needs a look at no other one, however many are kept.
    """

    newest: dict[str, int] = field(default_factory=dict)
    """By file the newest commit that names it, of those that were noted."""
    noted: tuple[int, int] | None = None
    """Timeline and id of the last commit noted."""

    def note(self, store: ObjectStore, module: str, topology: str, commit: Commit) -> None:
        """Note a commit and those between it and the last one noted."""
        first = commit.floor
        if self.noted is not None and self.noted[0] == commit.timeline:
            first = max(first, self.noted[1] + 1)
        else:  # a rollback abandoned some of what was noted
            self.newest.clear()
        timelines = read_timelines(store, module, topology, commit.timeline)
        for commit_id in range(first, commit.id):
            self._add(read_commit(store, module, topology, commit_id, timelines))
        self._add(commit)
        self.noted = (commit.timeline, commit.id)

    def forget_below(self, floor: int) -> None:
        """Drop those that only dropped commits name."""
        self.newest = {name: number for name, number in self.newest.items() if number >= floor}

    def _add(self, commit: Commit) -> None:
        for part in commit.pstates.values():
            for checkpoint in part.checkpoints:
                self.newest[checkpoint.file.name] = commit.id


def drop_below(
    store: ObjectStore,
    module: str,
    topology: str,
    old_floor: int,
    commit: Commit,
    named: NamedCheckpoints | None = None,
) -> int:
    """Drop what only commits from ``old_floor`` up to the floor of ``commit`` need.

    Args:
        store: The root.
        module: The module's name.
        topology: The topology's name.
        old_floor: The commits below it were dropped already.
        commit: The last commit.
        named: What is known of the commits before it; they are read when nothing is.

    Returns:
        How many files were deleted.
    """
    named = NamedCheckpoints() if named is None else named
    named.note(store, module, topology, commit)
    if commit.floor <= old_floor:
        return 0
    timelines = read_timelines(store, module, topology, commit.timeline)
    dropped = 0
    for commit_id in range(old_floor, commit.floor):
        try:
            found = read_commit(store, module, topology, commit_id, timelines)
        except NotFoundError:
            continue  # dropped by an earlier life that died before it could say so
        names = [
            name
            for name in dict.fromkeys(files_of(found))
            if named.newest.get(name, 0) < commit.floor
        ]
        delete_each(store, names)
        timeline = timelines.of(commit_id)
        delete_plan(store, module, topology, timeline, found)
        store.delete(commit_objects(store, module, topology, timeline).name(commit_id))
        dropped += len(names)
    named.forget_below(commit.floor)
    return dropped


def drop_orphans(store: ObjectStore, module: str, topology: str, commit: Commit) -> int:
    """Drop the files that attempts at committed microbatches left and no commit names.

    Files of later ids stay: an attempt may be writing them.

    Returns:
        How many files were deleted.
    """
    timelines = read_timelines(store, module, topology, commit.timeline)
    kept = _kept(store, module, topology, commit, timelines)
    dropped = _drop_abandoned_objects(store, module, topology, timelines, kept)
    left = [
        name
        for folder in _FOLDERS
        for name in store.list(f"{module}/{topology}/{folder}")
        if name not in kept and _microbatch_of(name) <= commit.id
    ]
    # Ids begin again lower after a rollback. When none is newer now, after listing, nothing
    # listed can be of a timeline that this process does not know.
    if timeline_objects(store, module, topology).exists(commit.timeline + 1):
        return dropped
    dropped += delete_each(store, left)
    for timeline in range(timelines.number + 1):
        # a life that was killed while it dropped them leaves some of them below the floor
        delete_plans_below(store, module, topology, timeline, commit.floor)
        commit_objects(store, module, topology, timeline).delete_below(commit.floor)
    return dropped


def drop_abandoned(store: ObjectStore, module: str, topology: str, head: Commit) -> int:
    """Drop what only commits that a rollback abandoned need.

    Only what those commits name: a life that took over meanwhile may already be writing files of
    the ids after ``head``. What abandoned attempts left goes at a later start.

    Args:
        store: The root.
        module: The module's name.
        topology: The topology's name.
        head: The commit gone back to, with the new timeline's number.

    Returns:
        How many files were deleted.
    """
    timelines = read_timelines(store, module, topology, head.timeline)
    kept = _kept(store, module, topology, head, timelines)
    return _drop_abandoned_objects(store, module, topology, timelines, kept)


def _drop_abandoned_objects(
    store: ObjectStore, module: str, topology: str, timelines: Timelines, kept: set[str]
) -> int:
    """Drop the commits and plans of earlier timelines that do not count, and their files.

    A stopped coordinator may have made some of them long after the rollback.
    """
    dropped = 0
    for timeline in range(timelines.number):
        branch = timelines.branch_since(timeline)
        assert branch is not None
        commits = commit_objects(store, module, topology, timeline)
        for number in commits.numbers(branch + 1):
            with contextlib.suppress(DamageError, NotFoundError):  # then its files stay
                for name in _only_of(decode_commit(commits.read(number)), kept):
                    store.delete(name)
                    dropped += 1
            store.delete(commits.name(number))
        delete_plans_above(store, module, topology, timeline, branch)
    return dropped


def _only_of(commit: Commit, kept: set[str]) -> list[str]:
    """The files that a commit names and no kept one, each once.

    In the commit's order, which a set would not keep: a life that is killed in between leaves the
    same files whatever Python's hash seed is, so that a failure can be replayed.
    """
    return [name for name in dict.fromkeys(files_of(commit)) if name not in kept]


def _kept(
    store: ObjectStore, module: str, topology: str, commit: Commit, timelines: Timelines
) -> set[str]:
    """The files that the commits from the floor of this one up to it name."""
    return {
        name
        for commit_id in range(commit.floor, commit.id + 1)
        for name in files_of(read_commit(store, module, topology, commit_id, timelines))
    }


def _microbatch_of(name: str) -> int:
    """Every file's name begins with the 20 digits of its microbatch's id."""
    return int(name.rsplit("/", 1)[-1][:20])
