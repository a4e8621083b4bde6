"""Divides a microbatch's planned rows among reading tasks. Pure.

All blocks of all origins are laid end to end, in the order of depots, depot partitions and
offsets, and cut into runs of about equal numbers of rows. So every task reads rows in append
order, and the tasks' order is the rows' order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from atoll.depot.segments.blocks import BlockRef
from atoll.engine.program import Split
from atoll.pstate.store.history import FileRef


def divide(rows: int, parallelism: int, rows_per_task_least: int) -> int:
    """How many reading tasks to use: enough to be quick, none for a handful of rows."""
    return max(1, min(parallelism, -(-rows // rows_per_task_least)))


def cut_blocks(
    blocks: Mapping[int, Sequence[BlockRef]], tasks: int, firsts: Mapping[int, int] | None = None
) -> tuple[tuple[Split, ...], ...]:
    """Each task's splits of depot blocks (by origin); blocks are cut where a task's share ends.

    ``firsts`` are the numbers of the origins' first rows; they count from 0 without.
    """
    total = sum(ref.take for refs in blocks.values() for ref in refs)
    shares: list[list[Split]] = [[] for _ in range(tasks)]
    bounds = [total * (index + 1) // tasks for index in range(tasks)]
    task, done = 0, 0
    for origin, refs in blocks.items():
        run: list[BlockRef] = []
        begun = done
        shift = (firsts or {}).get(origin, 0) - done
        for ref in refs:
            rest = ref
            while rest.take > bounds[task] - done:
                room = bounds[task] - done
                if room:
                    run.append(msgspec.structs.replace(rest, take=room))
                    rest = msgspec.structs.replace(
                        rest, skip=rest.skip + room, take=rest.take - room
                    )
                    done += room
                if run:
                    shares[task].append(Split(origin, tuple(run), first=begun + shift))
                    run = []
                begun = done
                task += 1
            run.append(rest)
            done += rest.take
        if run:
            shares[task].append(Split(origin, tuple(run), first=begun + shift))
    return tuple(tuple(share) for share in shares)


def join_splits(
    first: tuple[tuple[Split, ...], ...], files: Mapping[int, Sequence[FileRef]]
) -> tuple[tuple[Split, ...], ...]:
    """Add staged files (by origin), each read whole by one task, in their order."""
    shares = [list(share) for share in first]
    for origin, refs in files.items():
        count = len(shares)
        for index in range(count):
            mine = refs[len(refs) * index // count : len(refs) * (index + 1) // count]
            if mine:
                shares[index].append(Split(origin, files=tuple(mine)))
    return tuple(tuple(share) for share in shares)
