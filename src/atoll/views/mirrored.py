"""The PStates of other modules as a module's own readers see them: each at its last commit.

What a mirrored PState is may change while its reader runs: its module is updated, and its values
migrated. So the deployment is looked at again whenever a commit is: whoever reads a commit knows
at least as much of the schema as the one who made it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from atoll.microbatch.commits.history import CommitHistory
from atoll.storage.places import Place
from atoll.storage.roots import open_store
from atoll.views.connect import Connected, connect
from atoll.views.deployment import MirrorDeployment, deployment_number
from atoll.views.readable import ReadablePState

Commits = dict[tuple[str, str], CommitHistory]
"""For each module and topology the log as of its last commit."""


class MirroredPStates:
    """The PStates that a module mirrors. Safe from any thread.

    Args:
        root: Where all modules are.
        mirrors: What is mirrored, by ``module.name``.
    """

    def __init__(self, root: Place, mirrors: Mapping[str, MirrorDeployment]) -> None:
        self._store = open_store(root)
        self._mirrors = mirrors
        self._connected: dict[str, tuple[int, Connected]] = {}
        self._lock = threading.Lock()

    def now(self) -> tuple[dict[str, ReadablePState], Commits]:
        """All of them, and the commits to read them at.

        Raises:
            NotFoundError: When a module is no longer there.
        """
        with self._lock:
            found: dict[str, ReadablePState] = {}
            commits: Commits = {}
            for module in sorted({each.module for each in self._mirrors.values()}):
                self._read(module, found, commits)
            return found, commits

    def _read(self, module: str, found: dict[str, ReadablePState], commits: Commits) -> None:
        while True:
            number, connected = self._connect(module)
            for known, mirror in self._mirrors.items():
                if mirror.module == module:
                    found[known] = connected.pstate(mirror.name)
                    at = (module, found[known].spec.topology)
                    commits[at] = found[known].history()
            if deployment_number(self._store, module) == number:
                return
            del self._connected[module]

    def _connect(self, module: str) -> tuple[int, Connected]:
        if module not in self._connected:
            number = deployment_number(self._store, module)
            self._connected[module] = (number, connect(self._store.root, module))
        return self._connected[module]
