"""Step 5: drop the plans, commits and files that no recovery and no reader needs any more.

Order matters for a crash in between: files first, then the commit that names them, lowest id
first. What a failed attempt left is found by name: only the tokens of its commit count.
"""

from __future__ import annotations

from collections.abc import Iterator

from atoll.errors import NotFoundError
from atoll.microbatch.history import commit_objects, plan_objects, read_commit
from atoll.microbatch.objects import Commit
from atoll.storage.local import LocalStore

__all__ = ["drop_below", "drop_orphans", "files_of"]


def files_of(commit: Commit) -> Iterator[str]:
    """The files that a commit names."""
    for part in commit.pstates.values():
        yield from (log.file.name for job in part.logs for log in job)
        yield from (checkpoint.file.name for checkpoint in part.checkpoints)


def drop_below(
    store: LocalStore, module: str, topology: str, old_floor: int, commit: Commit
) -> int:
    """Drop what only commits from ``old_floor`` up to the floor of ``commit`` need.

    Returns:
        How many files were deleted.
    """
    if commit.floor <= old_floor:
        return 0
    kept = {
        name
        for commit_id in range(commit.floor, commit.id + 1)
        for name in files_of(read_commit(store, module, topology, commit_id))
    }
    plans = plan_objects(store, module, topology)
    commits = commit_objects(store, module, topology)
    dropped = 0
    for commit_id in range(old_floor, commit.floor):
        try:
            names = set(files_of(read_commit(store, module, topology, commit_id))) - kept
        except NotFoundError:
            continue  # dropped by an earlier life that died before it could say so
        for name in names:
            store.delete(name)
        store.delete(plans.name(commit_id))
        store.delete(commits.name(commit_id))
        dropped += len(names)
    return dropped


def drop_orphans(store: LocalStore, module: str, topology: str, commit: Commit) -> int:
    """Drop the files that attempts at committed microbatches left and no commit names.

    Files of later ids stay: an attempt may be writing them.

    Returns:
        How many files were deleted.
    """
    kept = {
        name
        for commit_id in range(commit.floor, commit.id + 1)
        for name in files_of(read_commit(store, module, topology, commit_id))
    }
    dropped = 0
    for folder in ("logs", "checkpoints", "staged"):
        for name in store.list(f"{module}/{topology}/{folder}"):
            if name not in kept and _microbatch_of(name) <= commit.id:
                store.delete(name)
                dropped += 1
    for number in plan_objects(store, module, topology).numbers():
        if number < commit.floor:
            store.delete(plan_objects(store, module, topology).name(number))
    return dropped


def _microbatch_of(name: str) -> int:
    """Every file's name begins with the 20 digits of its microbatch's id."""
    return int(name.rsplit("/", 1)[-1][:20])
