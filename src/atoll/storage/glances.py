"""What costs a request in a bucket and next to nothing on a disk: looks, and many deletes.

Looks are at what other processes may have made, where nothing rests on seeing it at once.

On a disk a look costs a system call. In a bucket it is a request that is paid for, so there a look
that found nothing is believed for a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from atoll.storage.objects import ObjectStore


def look_seconds(store: ObjectStore, usual: float = 0.0) -> float:
    """How long to wait between two looks at a store, at least.

    Args:
        store: What is looked at.
        usual: How long where a look costs next to nothing.
    """
    return max(usual, float(getattr(store, "look_seconds", 0.0)))


def delete_each(store: ObjectStore, names: Iterable[str]) -> int:
    """Delete objects in no order, several at once where each is a request; returns how many."""
    wanted = list(names)
    at_once = min(len(wanted), int(getattr(store, "at_once", 1)))
    if at_once > 1:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(store.delete, wanted))
    else:
        for name in wanted:
            store.delete(name)
    return len(wanted)


class Glance:
    """Whether somebody else has made an object of a name. Safe in threads.

    Args:
        store: Where.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._seconds = look_seconds(store)
        self._seen = ("", 0.0)

    def exists(self, name: str) -> bool:
        """Whether it exists; a look of just before that found nothing may stand for this one."""
        before, at = self._seen
        now = time.monotonic()
        if before == name and now - at < self._seconds:
            return False
        if self._store.exists(name):
            return True
        self._seen = (name, now)
        return False
