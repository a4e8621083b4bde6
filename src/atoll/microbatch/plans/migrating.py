"""What is left to rewrite of migrations, and which part of it a microbatch takes. Pure.

A vnode is behind when it holds entries and has been through fewer migrations than its PState.
Every microbatch rewrites a few vnodes that are behind, besides those that its rows lead to; with
no records waiting, microbatches without any do it. So a migration ends by itself, in slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atoll.microbatch.commits.objects import Commit, unpack_ids
from atoll.microbatch.control.options import Options


@dataclass(frozen=True, slots=True)
class Migrating:
    """Where a PState's migrations lead."""

    generation: int
    """That of a vnode which has been through all of them."""
    id: str
    """The last one's."""


def behind(commit: Commit, pstate: str, generation: int) -> list[int]:
    """The vnodes of a PState that are behind as of a commit."""
    part = commit.pstates.get(pstate)
    if part is None:
        return []
    touched = unpack_ids(part.touched)
    known = unpack_ids(part.generations) if part.generations else [0] * len(touched)
    pairs = zip(touched, known, strict=True)
    return [vnode for vnode, (when, at) in enumerate(pairs) if when and at < generation]


def slices(
    last: Commit, migrations: Mapping[str, Migrating], options: Options
) -> dict[str, list[int]]:
    """For each PState that is behind the vnodes that the microbatch after ``last`` rewrites."""
    found = {
        name: behind(last, name, each.generation)[: options.for_pstate(name).migration_vnodes_max]
        for name, each in migrations.items()
    }
    return {name: vnodes for name, vnodes in found.items() if vnodes}


def left(commit: Commit, migrations: Mapping[str, Migrating]) -> dict[str, Any]:
    """For each PState that is being migrated the migration, and how many vnodes are behind."""
    found = {
        name: {"id": each.id, "vnodes_left": len(behind(commit, name, each.generation))}
        for name, each in migrations.items()
    }
    return {name: each for name, each in found.items() if each["vnodes_left"]}
