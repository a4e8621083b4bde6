"""PStates that were filled beside a topology become part of it: in one commit. Pure.

A topology that fills (:mod:`atoll.cluster.backfill`) has commits of its own. When it has read as
far as the other one, its state is what it would be had the PStates been there all along. So a
commit without records brings them in: it names the files that they are built from, and before it
nothing of them is in the topology.

Ids of the two count different microbatches. Of the filled state nothing but the last is kept: the
newest checkpoint of each vnode, as if it had been written before the commit, and the incremental
logs from the first on that a vnode needs beside its checkpoint, as if that commit had written them.
Logs hold whole values, so a vnode that is further already comes to the same by all of them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from atoll.microbatch.commits.horizon import horizon_of
from atoll.microbatch.commits.objects import (
    CheckpointFile,
    Clocks,
    Commit,
    LogFile,
    PStateCommit,
    pack_ids,
    unpack_ids,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from atoll.microbatch.commits.checkpoints import Checkpoints
    from atoll.microbatch.events import Join, State
    from atoll.pstate.store.history import FileRef


@dataclass(frozen=True, slots=True)
class Filled:
    """What was filled, as of the last commit of the topology that did it.

    Attributes:
        touched: For each PState by vnode the last commit there that changed it; 0 for none.
        checkpoints: For each PState by vnode the file and commit of its newest checkpoint.
        logs: For each PState the incremental logs in order, each with its commit.
        generations: For each PState, packed, how many migrations its vnodes have been through.
    """

    touched: Mapping[str, Sequence[int]]
    checkpoints: Mapping[str, Sequence[tuple[FileRef, int] | None]]
    logs: Mapping[str, Sequence[tuple[int, LogFile]]]
    generations: Mapping[str, bytes]


def filled_by(commits: Sequence[Commit], checkpoints: Checkpoints) -> Filled:
    """What a topology has filled.

    Args:
        commits: Its commits from the floor of the last one up to it, oldest first.
        checkpoints: Those that they name.
    """
    last = commits[-1]
    return Filled(
        {name: unpack_ids(part.touched) for name, part in last.pstates.items()},
        {
            name: [
                (entries[-1].file, entries[-1].id) if entries else None
                for entries in checkpoints.entries.get(name, ((),) * len(unpack_ids(part.touched)))
            ]
            for name, part in last.pstates.items()
        },
        {name: list(_logs(commits, name)) for name in last.pstates},
        {name: part.generations for name, part in last.pstates.items()},
    )


def _logs(commits: Sequence[Commit], pstate: str) -> Iterator[tuple[int, LogFile]]:
    for commit in commits:
        part = commit.pstates.get(pstate)
        for job in [] if part is None else part.logs:
            yield from ((commit.id, log) for log in job)


def taken_in(filled: Filled, commit_id: int) -> dict[str, PStateCommit]:
    """What the commit that brings the PStates in says of them."""
    return {name: _taken_in(filled, name, commit_id) for name in filled.touched}


def nothing(vnode_count: int, commit_id: int) -> PStateCommit:
    """What it says of one that nothing was filled into."""
    return PStateCommit(pack_ids([0] * vnode_count), [], [], since=commit_id)


def _taken_in(filled: Filled, name: str, commit_id: int) -> PStateCommit:
    touched, known = filled.touched[name], filled.checkpoints[name]
    bases = [0 if each is None else each[1] for each in known]
    needed = [at for at, log in filled.logs[name] if any(at > bases[each] for each in log.vnodes)]
    first = min(needed, default=0)
    logs = [[log] for at, log in filled.logs[name] if needed and at >= first]
    behind = {vnode for job in logs for log in job for vnode in log.vnodes}
    files: dict[FileRef, CheckpointFile] = {}
    for vnode, each in enumerate(known):
        if each is not None:
            named = files.setdefault(each[0], CheckpointFile(each[0], [], []))
            named.vnodes.append(vnode)
            named.ids.append(commit_id - 1 if vnode in behind else commit_id)
    ids = [commit_id if each else 0 for each in touched]
    return PStateCommit(
        pack_ids(ids), logs, list(files.values()), filled.generations[name], since=commit_id
    )


def files_named(
    pstates: Mapping[str, PStateCommit], name: Callable[[FileRef], FileRef]
) -> dict[str, PStateCommit]:
    """The same of files that have other names."""
    return {
        each: msgspec.structs.replace(
            part,
            logs=[[LogFile(name(log.file), log.vnodes) for log in job] for job in part.logs],
            checkpoints=[CheckpointFile(name(c.file), c.vnodes, c.ids) for c in part.checkpoints],
        )
        for each, part in pstates.items()
    }


def joined_commit(state: State, event: Join) -> Commit:
    """The commit that follows the last one, reads nothing and brings the PStates in."""
    last = state.last
    commit_id = last.id + 1
    pstates = {
        name: msgspec.structs.replace(
            part,
            logs=[],
            checkpoints=state.checkpoints.named_again(
                commit_id, state.options.checkpoint_commits, name
            ),
        )
        for name, part in last.pstates.items()
    }
    return Commit(
        id=commit_id,
        version=0,
        epoch=state.epoch,
        committed_at_ms=event.now_ms,
        ranges={name: [(at, at) for at in ends] for name, ends in last.ends().items()},
        records=0,
        processed=last.processed,
        tokens=[],
        pstates={**pstates, **event.pstates},
        floor=last.floor,
        timeline=last.timeline,
        horizon=horizon_of(commit_id, last, state.options, state.heads),
        clocks=_together(last.clocks, event.clocks),
        delivered=state.delivered,
    )


def _together(mine: Clocks, filled: Clocks) -> Clocks:
    """How far time is of both. A watermark that both have has come through the same records."""
    return Clocks(
        max(mine.now_ms, filled.now_ms),
        _furthest(mine.watermarks, filled.watermarks),
        {
            name: _furthest(mine.reached.get(name, {}), filled.reached.get(name, {}))
            for name in sorted({*mine.reached, *filled.reached})
        },
        _furthest(mine.used, filled.used),
        {**filled.dropped, **mine.dropped},
        {**filled.agenda, **mine.agenda},
    )


def _furthest(mine: Mapping[str, int], filled: Mapping[str, int]) -> dict[str, int]:
    names = sorted({*mine, *filled})
    return {name: max(each[name] for each in (mine, filled) if name in each) for name in names}


def joined_after(commit: Commit, commit_id: int) -> dict[str, int]:
    """The PStates of a commit that were not there yet as of an earlier one, and since when."""
    return {name: part.since for name, part in commit.pstates.items() if part.since > commit_id}
