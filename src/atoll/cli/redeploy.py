"""Deploys the module of ``atoll run`` again, from the target that it was started with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atoll.cli.target import load_module
from atoll.errors import UsageError

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from atoll.cluster.cluster import Cluster
    from atoll.cluster.deploy.stopped import StoppedModule

__all__ = ["Redeployer"]


class Redeployer:
    """What the service calls for ``atoll deploy``; one at a time.

    Args:
        cluster: Runs the module.
        target: Where its code is.
        name: The module.
    """

    def __init__(self, cluster: Cluster, target: str, name: str) -> None:
        """Nothing is loaded again yet."""
        self._cluster = cluster
        self._target = target
        self._name = name
        self._lock = threading.Lock()

    @property
    def app(self) -> App | StoppedModule:
        """The module as it runs now, whichever version of it; or why it does not."""
        return self._cluster.module(self._name)

    def __call__(self, *, remove: Sequence[str], dry_run: bool) -> dict[str, Any]:
        """Load the code again and deploy it, or only say what that would change.

        Raises:
            AtollError: When it cannot be; the error says what runs then.
        """
        with self._lock:
            module = load_module(self._target, again=True)
            if module.name != self._name:
                raise UsageError(
                    f"{self._target} now is module {module.name!r}, not {self._name!r}",
                    hint="a version has the name of the module: start another service for another",
                )
            plan = self._cluster.plan(module, remove=remove)
            if not dry_run:
                self._cluster.update(module, remove=remove)
            return plan.to_json()
