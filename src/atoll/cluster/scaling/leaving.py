"""A worker that will end soon says so itself, on the root: no service has to be asked.

Whichever process runs a module sees it, and moves what runs there; the worker waits until nothing
does. So a host can be taken away at any time, by whoever sends its worker a SIGTERM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.errors import NotFoundError, WaitTimeoutError
from atoll.placement.registry import actors_on, leave

_LOOK_SECONDS = 0.1


def say_leaving(revisions: Revisions, name: str, now_ms: Callable[[], int]) -> int:
    """Mark the worker of that name as leaving; its id.

    Raises:
        NotFoundError: When there is none of that name.
    """
    workers = revisions.latest().workers
    ids = [each.id for each in workers if each.name == name]
    if not ids:
        known = ", ".join(each.name for each in workers) or "none"
        raise NotFoundError(f"there is no worker {name!r}", hint=f"there are: {known}")
    revisions.change(
        lambda registry: leave(registry, ids),
        lambda registry: Revision(registry, "", 0, now_ms(), "leave"),
    )
    return ids[0]


def await_empty(revisions: Revisions, ids: Collection[int], timeout_seconds: float) -> None:
    """Return when nothing runs on these workers.

    Raises:
        WaitTimeoutError: When something still does then.
    """
    until = time.monotonic() + timeout_seconds
    while actors := actors_on(revisions.latest(), ids):
        if time.monotonic() > until:
            raise WaitTimeoutError(
                f"{actors} actors still run on workers {', '.join(map(str, ids))}",
                hint="let other workers join, or see why a topology does not move: atoll status",
            )
        time.sleep(_LOOK_SECONDS)
