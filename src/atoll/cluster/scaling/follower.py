"""Looks again and again at what other processes change of the root's cluster, and try."""

from __future__ import annotations

import threading

from atoll.cluster.scaling.over_modules import RootCluster
from atoll.errors import AtollError
from atoll.logs import get_logger

_log = get_logger("atoll.cluster")

_LOOK_SECONDS = 0.25


class Follower:
    """A thread that does so; two system calls a look when nothing is new.

    Args:
        cluster: Takes over what is new.
    """

    def __init__(self, cluster: RootCluster) -> None:
        """Nothing is looked at before :meth:`begin`."""
        self._cluster = cluster
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atoll-follower", daemon=True)
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Look from now on; nothing when it does already."""
        with self._lock:
            if not (self._thread.is_alive() or self._ending.is_set()):
                self._thread.start()

    def close(self) -> None:
        """Look no more; a look that is under way comes to its end."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.wait(self._cluster.look_seconds(_LOOK_SECONDS)):
            try:
                self._cluster.look()
            except AtollError as error:  # the next look tries again
                _log.warning("the cluster of the root was not followed", error=str(error))
