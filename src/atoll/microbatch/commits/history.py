"""The committed log of a topology as stores and readers ask for it, as of one commit.

Commits never change once made, so a process keeps the last few hundred that it read.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from atoll.errors import DamageError, NotFoundError, UsageError
from atoll.microbatch.commits.joining import joined_after
from atoll.microbatch.commits.objects import (
    GENESIS,
    Commit,
    PStateCommit,
    decode_commit,
    unpack_ids,
)
from atoll.microbatch.commits.timelines import Timelines, read_timelines
from atoll.pstate.store.history import FileRef, Rebuild
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectStore
from atoll.storage.places import Place
from atoll.storage.roots import RootStore, is_root_store, open_store

_COMMITS_KEPT = 512


def commit_objects(
    store: ObjectStore, module: str, topology: str, timeline: int = 0
) -> NumberedObjects:
    """The commits that were made on one timeline of a topology."""
    return NumberedObjects(store, f"{module}/{topology}/commits{_suffix(timeline)}")


def plan_objects(
    store: ObjectStore, module: str, topology: str, timeline: int = 0
) -> NumberedObjects:
    """The plans that were made on one timeline of a topology."""
    return NumberedObjects(store, f"{module}/{topology}/plans{_suffix(timeline)}")


def _suffix(timeline: int) -> str:
    return f"-{timeline}" if timeline else ""


@functools.lru_cache(maxsize=_COMMITS_KEPT)
def _commit_in(
    root: Place,
    prefix: str,
    commit_id: int,
    stamp: Hashable,  # noqa: ARG001 - tells apart roots that stood at one path in turn
) -> Commit:
    return decode_commit(NumberedObjects(open_store(root), prefix).read(commit_id))


@functools.lru_cache(maxsize=_COMMITS_KEPT)
def _touched(packed: bytes) -> list[int]:
    return unpack_ids(packed)


def read_commit(
    store: ObjectStore,
    module: str,
    topology: str,
    commit_id: int,
    timelines: Timelines | None = None,
) -> Commit:
    """A commit by its id, as it was made; id 0 is the progress before the first.

    Args:
        store: The root.
        module: The module's name.
        topology: The topology's name.
        commit_id: Which one.
        timelines: Of those that bear the id, the one that counts there; as of now when None.

    Raises:
        NotFoundError: When it was dropped, or never made.
        DamageError: When the object is damaged.
    """
    if commit_id == 0:
        return GENESIS
    if timelines is None:
        timelines = read_timelines(store, module, topology)
    objects = commit_objects(store, module, topology, timelines.of(commit_id))
    name = objects.name(commit_id)
    if not is_root_store(store):
        return decode_commit(objects.read(commit_id))
    try:
        stamp = store.stamp(name)
    except NotFoundError as error:
        raise NotFoundError(f"there is no commit {commit_id}", file=name) from error
    return _commit_in(store.root, objects.prefix, commit_id, stamp)


def latest_commit(store: ObjectStore, module: str, topology: str, hint: int = 0) -> Commit:
    """The last commit that counts, or ``GENESIS``. ``hint`` is one known to exist, for speed.

    Right after a rollback it is the commit gone back to, with the new timeline's number.
    """
    timelines = read_timelines(store, module, topology)
    while True:
        try:
            return _head(store, module, topology, timelines, hint)
        except NotFoundError:  # a rollback abandoned it while we looked
            newer = read_timelines(store, module, topology)
            if newer == timelines:
                raise
            timelines = newer


def _head(
    store: ObjectStore, module: str, topology: str, timelines: Timelines, hint: int
) -> Commit:
    """The last commit that counts on the newest of the timelines."""
    number = commit_objects(store, module, topology, timelines.number).latest(hint or None)
    head = read_commit(store, module, topology, max(number or 0, timelines.branch), timelines)
    if head.closing is not None:  # a rollback has begun; until it is complete nothing changes
        head = read_commit(store, module, topology, head.id - 1, timelines)
    return timelines.followed_from(head)


class CommitHistory:
    """What the commits up to ``commit_id`` say; implements ``atoll.pstate.store.history.History``.

    It is the history of one commit on one timeline: a rollback that happens later changes no
    answer, though files that only abandoned commits name may go. It stays good while the last
    commit says that the state as of it can be read, although commits that it knows are dropped.
    """

    def __init__(self, store: RootStore, module: str, topology: str, commit: Commit) -> None:
        """Use :meth:`open` unless the commit is at hand.

        Args:
            store: The root.
            module: The module's name.
            topology: The topology's name.
            commit: The last commit known; its timeline is the one that is followed.
        """
        self.store = store
        self.module = module
        self.topology = topology
        self.commit = commit
        self.timelines = read_timelines(store, module, topology, commit.timeline)
        self._known: dict[tuple[str, int], _Winners] = {}

    @classmethod
    def open(
        cls,
        store: RootStore,
        module: str,
        topology: str,
        commit_id: int,
        timeline: int | None = None,
    ) -> CommitHistory:
        """The history as of a commit on a timeline; the newest timeline when None.

        Raises:
            NotFoundError: When the commit was dropped, or never made.
        """
        timelines = read_timelines(store, module, topology, timeline)
        commit = read_commit(store, module, topology, commit_id, timelines)
        return cls(store, module, topology, timelines.followed_from(commit))

    def as_of(self, commit_id: int) -> CommitHistory:
        """The history as of an earlier commit on the same timeline.

        Raises:
            UsageError: When the commit is later, or too long ago.
            NotFoundError: When the commit was dropped meanwhile.
        """
        head = self.commit
        if not head.readable_from <= commit_id <= head.id:
            raise UsageError(
                f"the state after microbatch {commit_id} of topology {self.topology!r} "
                "cannot be read",
                hint=f"it can be read as of {head.readable_from} to {head.id}; options "
                "pstate.history.seconds and pstate.history.microbatches keep more",
                topology=self.topology,
            )
        commit = read_commit(self.store, self.module, self.topology, commit_id, self.timelines)
        # What this commit would rebuild from may be gone; what the head keeps is enough for both.
        commit = msgspec.structs.replace(
            commit,
            timeline=head.timeline,
            floor=max(commit.floor, head.floor),
            horizon=head.readable_from,
            pstates={**_without_state(head, commit_id), **commit.pstates},
        )
        return CommitHistory(self.store, self.module, self.topology, commit)

    @property
    def commit_id(self) -> int:
        """The last commit that this history knows."""
        return self.commit.id

    @property
    def timeline(self) -> int:
        """The timeline that this history follows."""
        return self.commit.timeline

    @property
    def horizon(self) -> int:
        """The lowest commit as of which the state must stay readable."""
        return self.commit.readable_from

    def branch_since(self, timeline: int) -> int | None:
        """The last commit shared with an earlier timeline; None for the same or a later one."""
        return self.timelines.branch_since(timeline)

    def last_touched(self, pstate: str, vnode: int) -> int:
        """The last id that changed the vnode; 0 when none did."""
        part = self.commit.pstates.get(pstate)
        if part is not None and part.since > self.commit.id:
            raise UsageError(
                f"PState {pstate!r} has no state as of microbatch {self.commit.id}: it was filled "
                f"and joined with microbatch {part.since}",
                hint=f"read it as of {part.since} or later",
                pstate=pstate,
            )
        return 0 if part is None else _touched(part.touched)[vnode]

    def generation(self, pstate: str, vnode: int) -> int:
        """How many migrations the vnode's entries have been through."""
        part = self.commit.pstates.get(pstate)
        return _touched(part.generations)[vnode] if part is not None and part.generations else 0

    def committed_tokens(self, pstate: str, vnode: int, commit_id: int) -> frozenset[str]:  # noqa: ARG002 - a finer log may ask per vnode
        """The winning task runs of a microbatch; none when it is not known to be committed.

        Commits below the floor are gone. Work of theirs that a store still holds as pending (it
        was checkpointed in that microbatch and stayed clean) is undone and read back from there.
        """
        return self._winners(pstate, commit_id).tokens

    def committed_steps(self, pstate: str, vnode: int, commit_id: int) -> tuple[int, ...]:
        """The jobs of a committed microbatch that changed the vnode, ascending."""
        return self._winners(pstate, commit_id).steps.get(vnode, ())

    def rebuild(self, pstate: str, vnode: int) -> Rebuild:
        """The vnode's newest checkpoint and the logs after it, as of this commit.

        Raises:
            DamageError: When a commit in between is missing.
        """
        logs: list[tuple[int, FileRef]] = []
        base: tuple[FileRef, int] | None = None
        commit_id = self.commit.id
        while commit_id >= max(self.commit.floor, 1 if base is None else base[1] + 1):
            commit = self._read(commit_id)
            if commit is None:  # below it the vnode was clean since the checkpoint
                if base is None:
                    raise self._missing(commit_id)
                break
            part = commit.pstates.get(pstate)
            if part is not None:
                base = base or _checkpoint_of(part, vnode, self.commit.id)
                touching = [
                    (commit_id, log.file) for job in part.logs for log in job if vnode in log.vnodes
                ]
                logs.extend(reversed(touching))
            commit_id -= 1
        checkpoint, checkpoint_id = (None, 0) if base is None else base
        later = [log for log in reversed(logs) if log[0] > checkpoint_id]
        part = self.commit.pstates.get(pstate)
        since = 0 if part is None else part.since
        return Rebuild(checkpoint, checkpoint_id, tuple(later), since)

    def open_file(self, ref: FileRef) -> Path:
        """Where the file lies."""
        return self.store.file(ref.name)

    def _winners(self, pstate: str, commit_id: int) -> _Winners:
        known = self._known.get((pstate, commit_id))
        if known is None:
            stands = self.commit.floor <= commit_id <= self.commit.id
            commit = self._read(commit_id) if stands else None
            known = _NOBODY if commit is None else _winners(commit, pstate)
            self._known[pstate, commit_id] = known
        return known

    def _read(self, commit_id: int) -> Commit | None:
        """A commit up to this one; None when it was dropped, and nothing readable needs it.

        Raises:
            DamageError: When it is missing.
        """
        if commit_id == self.commit.id:
            return self.commit
        try:
            return read_commit(self.store, self.module, self.topology, commit_id, self.timelines)
        except NotFoundError as error:
            if self._is_dropped(commit_id):
                return None
            raise self._missing(commit_id) from error

    def _is_dropped(self, commit_id: int) -> bool:
        """Whether the last commit says that it may be gone, and this history be read."""
        head = latest_commit(self.store, self.module, self.topology, self.commit.id)
        timelines = read_timelines(self.store, self.module, self.topology, head.timeline)
        shared = timelines.branch_since(self.timeline)
        abandoned = shared is not None and shared < self.commit.id
        return not abandoned and commit_id < head.floor and head.readable_from <= self.commit.id

    def _missing(self, commit_id: int) -> DamageError:
        objects = commit_objects(
            self.store, self.module, self.topology, self.timelines.of(commit_id)
        )
        return DamageError(
            f"commit {commit_id} of topology {self.topology!r} is missing",
            hint="restore it from a backup of the root folder",
            file=objects.name(commit_id),
        )


def _without_state(head: Commit, commit_id: int) -> dict[str, PStateCommit]:
    """What joined after a commit, so that whoever reads it as of that one is told."""
    return {name: head.pstates[name] for name in joined_after(head, commit_id)}


@dataclass(frozen=True)
class _Winners:
    """Which task runs a commit consists of, and which of its jobs changed which vnode."""

    tokens: frozenset[str]
    steps: dict[int, tuple[int, ...]]


_NOBODY = _Winners(frozenset(), {})


def _winners(commit: Commit, pstate: str) -> _Winners:
    part = commit.pstates.get(pstate)
    steps: dict[int, tuple[int, ...]] = {}
    for step, logs in enumerate(part.logs if part is not None else []):
        for vnode in {vnode for log in logs for vnode in log.vnodes}:
            steps[vnode] = (*steps.get(vnode, ()), step)
    return _Winners(frozenset(commit.tokens), steps)


def _checkpoint_of(part: PStateCommit, vnode: int, commit_id: int) -> tuple[FileRef, int] | None:
    """The newest checkpoint of a vnode among those that one commit names."""
    best: tuple[FileRef, int] | None = None
    for checkpoint in part.checkpoints:
        for each, checkpoint_id in zip(checkpoint.vnodes, checkpoint.ids, strict=True):
            if (
                each == vnode
                and checkpoint_id <= commit_id
                and (best is None or checkpoint_id > best[1])
            ):
                best = (checkpoint.file, checkpoint_id)
    return best
