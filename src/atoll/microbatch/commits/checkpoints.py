"""Which checkpoints a topology has, which are due, and from where on the log must stay. Pure.

Every vnode is rebuilt from a *base*: its newest checkpoint at or before the commit asked for, and
the incremental logs after it. A commit names the checkpoints that were written with it. A vnode
that stays clean would hold back the log for ever, since the commit that named its checkpoint
could not go; so its checkpoint is *named again* by a later commit, without being written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.microbatch.commits.objects import CheckpointFile, Commit, unpack_ids
from atoll.pstate.store.history import FileRef

_ROUNDS = 5
"""A checkpoint interval is divided into so many rounds, so that no microbatch bears it all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint of one vnode."""

    id: int
    """The microbatch after which the vnode was as the file says."""
    file: FileRef
    named: tuple[int, ...]
    """The commits that name it, oldest first."""

    @property
    def named_in(self) -> int:
        """The newest commit that names it."""
        return self.named[-1]

    def named_by(self, commit_id: int) -> int:
        """The newest commit up to the one given that names it; the first when none does."""
        return max((each for each in self.named if each <= commit_id), default=self.named[0])


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """For each PState, by vnode, the known checkpoints, oldest first."""

    entries: dict[str, tuple[tuple[Entry, ...], ...]]

    def due(self, last: Commit, interval: int) -> dict[str, list[int]]:
        """The vnodes to write whole with the microbatch after ``last``, by PState.

        In rounds a fifth of the interval apart, each round a fifth of the vnodes that changed
        since their checkpoint, the longest unwritten first.
        """
        if not _is_round(last.id + 1, interval):
            return {}
        return {
            name: sorted(vnodes[: -(-len(vnodes) // _ROUNDS)])
            for name, vnodes in self._longest_unwritten(last).items()
        }

    def stale(self, last: Commit) -> dict[str, list[int]]:
        """All vnodes that changed since their checkpoint, by PState; no PState without any."""
        return {name: sorted(vnodes) for name, vnodes in self._longest_unwritten(last).items()}

    def without(self, vnodes: Mapping[str, Sequence[int]]) -> Checkpoints:
        """As if the vnodes, by PState, had never been written: their files cannot be used."""
        return Checkpoints(
            {
                name: tuple(
                    () if vnode in vnodes.get(name, ()) else entries
                    for vnode, entries in enumerate(known)
                )
                for name, known in self.entries.items()
            }
        )

    def named_again(self, commit_id: int, interval: int, name: str) -> list[CheckpointFile]:
        """The checkpoints of clean vnodes that commit ``commit_id`` must name again."""
        if not _is_round(commit_id, interval):
            return []
        files: dict[FileRef, CheckpointFile] = {}
        for vnode, entries in enumerate(self.entries.get(name, ())):
            if entries and commit_id - entries[-1].named_in >= interval:
                entry = entries[-1]
                known = files.setdefault(entry.file, CheckpointFile(entry.file, [], []))
                known.vnodes.append(vnode)
                known.ids.append(entry.id)
        return list(files.values())

    def with_commit(self, commit: Commit) -> Checkpoints:
        """The checkpoints after a commit."""
        changed = dict(self.entries)
        for name, part in commit.pstates.items():
            if not part.checkpoints:
                continue
            count = len(unpack_ids(part.touched))
            vnodes = list(changed.get(name, ((),) * count))
            for file in part.checkpoints:
                for vnode, checkpoint_id in zip(file.vnodes, file.ids, strict=True):
                    before = [e.named for e in vnodes[vnode] if e.id == checkpoint_id]
                    named = (*(before[0] if before else ()), commit.id)
                    entry = Entry(checkpoint_id, file.file, named)
                    others = tuple(e for e in vnodes[vnode] if e.id != checkpoint_id)
                    vnodes[vnode] = tuple(sorted((*others, entry), key=lambda each: each.id))
            changed[name] = tuple(vnodes)
        return Checkpoints(changed)

    def floor(self, touched: dict[str, list[int]], horizon: int) -> int:
        """The lowest commit that is needed to rebuild any vnode as of the horizon or later."""
        # Logs between a base and the commit that named it again cannot exist: the vnode was clean.
        floor = max(1, horizon)
        for name, ids in touched.items():
            known = self.entries.get(name, ())
            for vnode, when in enumerate(ids):
                if when == 0:
                    continue
                base = _newest_upto(known[vnode] if known else (), horizon)
                if base is None:
                    return 1
                # As of the horizon only a commit up to there can say where the base is.
                named = base.named_by(horizon)
                first_log = named if when <= base.id else base.id + 1
                floor = min(floor, named, first_log)
        return floor

    def above(self, floor: int) -> Checkpoints:
        """Without the checkpoints that only commits below ``floor`` name."""
        return Checkpoints(
            {
                name: tuple(
                    tuple(
                        replace(e, named=tuple(n for n in e.named if n >= floor))
                        for e in entries
                        if e.named_in >= floor
                    )
                    for entries in vnodes
                )
                for name, vnodes in self.entries.items()
            }
        )

    def _longest_unwritten(self, last: Commit) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name, part in last.pstates.items():
            newest = self._newest_ids(name)
            stale = sorted(
                (newest.get(vnode, 0), vnode)
                for vnode, when in enumerate(unpack_ids(part.touched))
                if when > newest.get(vnode, 0)
            )
            if stale:
                found[name] = [vnode for _, vnode in stale]
        return found

    def _newest_ids(self, name: str) -> dict[int, int]:
        return {
            vnode: entries[-1].id
            for vnode, entries in enumerate(self.entries.get(name, ()))
            if entries
        }


def _newest_upto(entries: tuple[Entry, ...], commit_id: int) -> Entry | None:
    """The newest checkpoint of a vnode up to a commit; few are older than the horizon."""
    base = None
    for entry in entries:
        if entry.id > commit_id:
            break
        base = entry
    return base


def _is_round(commit_id: int, interval: int) -> bool:
    return commit_id % max(1, interval // _ROUNDS) == 0
