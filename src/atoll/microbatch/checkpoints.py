"""Which checkpoints a topology has, which are due, and from where on the log must stay. Pure.

Every vnode is rebuilt from a *base*: its newest checkpoint at or before the commit asked for, and
the incremental logs after it. A commit names the checkpoints that were written with it. A vnode
that stays clean would hold back the log for ever, since the commit that named its checkpoint
could not go; so its checkpoint is *named again* by a later commit, without being written again.
"""

from __future__ import annotations

from dataclasses import dataclass

from atoll.microbatch.objects import CheckpointFile, Commit, unpack_ids
from atoll.pstate.history import FileRef

__all__ = ["Checkpoints", "Entry"]

_ROUNDS = 5
"""A checkpoint interval is divided into so many rounds, so that no microbatch bears it all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint of one vnode."""

    id: int
    """The microbatch after which the vnode was as the file says."""
    file: FileRef
    named_in: int
    """The newest commit that names it."""


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
        chosen: dict[str, list[int]] = {}
        for name, part in last.pstates.items():
            newest = self._newest_ids(name)
            touched = unpack_ids(part.touched)
            stale = sorted(
                (newest.get(vnode, 0), vnode)
                for vnode, when in enumerate(touched)
                if when > newest.get(vnode, 0)
            )
            if stale:
                share = -(-len(stale) // _ROUNDS)
                chosen[name] = sorted(vnode for _, vnode in stale[:share])
        return chosen

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
                    entry = Entry(checkpoint_id, file.file, commit.id)
                    others = tuple(e for e in vnodes[vnode] if e.id != checkpoint_id)
                    vnodes[vnode] = tuple(sorted((*others, entry), key=lambda each: each.id))
            changed[name] = tuple(vnodes)
        return Checkpoints(changed)

    def floor(self, commit_id: int, touched: dict[str, list[int]], history: int) -> int:
        """The lowest commit that is needed to rebuild any vnode as of the last ``history``."""
        # Logs between a base and the commit that named it again cannot exist: the vnode was clean.
        horizon = commit_id - history
        floor = max(1, horizon)
        for name, ids in touched.items():
            known = self.entries.get(name, ())
            for vnode, when in enumerate(ids):
                if when == 0:
                    continue
                bases = [e for e in known[vnode] if e.id <= horizon] if known else []
                if not bases:
                    return 1
                base = bases[-1]
                first_log = base.named_in if when <= base.id else base.id + 1
                floor = min(floor, base.named_in, first_log)
        return floor

    def above(self, floor: int) -> Checkpoints:
        """Without the checkpoints that only commits below ``floor`` name."""
        return Checkpoints(
            {
                name: tuple(tuple(e for e in entries if e.named_in >= floor) for entries in vnodes)
                for name, vnodes in self.entries.items()
            }
        )

    def _newest_ids(self, name: str) -> dict[int, int]:
        return {
            vnode: entries[-1].id
            for vnode, entries in enumerate(self.entries.get(name, ()))
            if entries
        }


def _is_round(commit_id: int, interval: int) -> bool:
    return commit_id % max(1, interval // _ROUNDS) == 0
