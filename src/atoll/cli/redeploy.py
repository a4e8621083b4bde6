"""Deploys the module of ``atoll run`` again, from the target that it was started with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atoll.cli.target import load_module
from atoll.errors import UsageError

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from atoll.cluster.cluster import Cluster

__all__ = ["Redeployer"]


class Redeployer:
    """What the service calls for ``atoll deploy``; one at a time.

    Args:
        cluster: Runs the module.
        target: Where its code is.
        app: The module as it runs.
        deployed: Called with each new app.
    """

    def __init__(
        self, cluster: Cluster, target: str, app: App, deployed: Callable[[App], None]
    ) -> None:
        """Nothing is loaded again yet."""
        self.app = app
        self._cluster = cluster
        self._target = target
        self._deployed = deployed
        self._lock = threading.Lock()

    def __call__(
        self, *, remove: Sequence[str], dry_run: bool
    ) -> tuple[dict[str, Any], App | None]:
        """Load the code again and deploy it, or only say what that would change.

        Raises:
            AtollError: When it cannot be; the running version goes on.
        """
        with self._lock:
            module = load_module(self._target, again=True)
            if module.name != self.app.name:
                raise UsageError(
                    f"{self._target} now is module {module.name!r}, not {self.app.name!r}",
                    hint="a version has the name of the module: start another service for another",
                )
            plan = self._cluster.plan(module, remove=remove)
            if dry_run:
                return plan.to_json(), None
            self.app = self._cluster.update(module, remove=remove)
            self._deployed(self.app)
            return plan.to_json(), self.app
