"""Deploys a module again from its code, wherever whoever runs it said that it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.errors import UsageError
from atoll.module import Module

if TYPE_CHECKING:
    from atoll.cluster.cluster import Cluster


class Redeployer:
    """What the service calls for ``atoll deploy``; one at a time.

    Args:
        cluster: Runs the module.
        name: The module.
        code: Where its code is, in words.
        load: Reads the code again.
    """

    def __init__(self, cluster: Cluster, name: str, code: str, load: Callable[[], Module]) -> None:
        self._cluster = cluster
        self._name = name
        self._code = code
        self._load = load
        self._lock = threading.Lock()

    @property
    def app(self) -> AppOrStopped:
        """The module as it runs now, whichever version of it; or why it does not."""
        return self._cluster.module(self._name)

    def __call__(self, *, remove: Sequence[str], dry_run: bool) -> dict[str, Any]:
        """Load the code again and deploy it, or only say what that would change.

        Returns:
            The plan of what changes, JSON-able.

        Raises:
            AtollError: When it cannot be; the error says what runs then.
        """
        with self._lock:
            module = self._load()
            if module.name != self._name:
                raise UsageError(
                    f"{self._code} now is module {module.name!r}, not {self._name!r}",
                    hint="a version has the name of the module: start another service for another",
                )
            plan = self._cluster.plan(module, remove=remove)
            if not dry_run:
                self._cluster.update(module, remove=remove)
            return plan.to_json()
