"""What the root still tells of microbatches that earlier lives of a topology committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.errors import NotFoundError
from atoll.microbatch.commits.history import read_commit
from atoll.microbatch.commits.timelines import read_timelines
from atoll.microbatch.control.status import told_of

if TYPE_CHECKING:
    from atoll.storage.objects import ObjectStore

_UNKNOWN = (
    *("failed_attempts", "operators", "skew"),
    *("prime", "process", "commit", "publish", "tidy", "total"),
)
"""What only the life that committed it knew."""


def earlier_microbatches(
    store: ObjectStore, module: str, topology: str, timeline: int, ids: range
) -> list[dict[str, Any]]:
    """Those of some microbatches that the root has not dropped, oldest first.

    Args:
        store: The root.
        module: The module's name.
        topology: The topology's name.
        timeline: The timeline that is followed.
        ids: Which ones.
    """
    timelines = read_timelines(store, module, topology, timeline)
    found: list[dict[str, Any]] = []
    for number in reversed(ids):
        try:
            commit = read_commit(store, module, topology, number, timelines)
        except NotFoundError:
            break
        found.append({**told_of(commit), **dict.fromkeys(_UNKNOWN)})
    return found[::-1]
