"""A module that should run and does not: it says so, and why, to whoever asks it for anything.

That is what is left when a deployment failed and the version before could not be started again
either, as on a full disk, or when another process took the module over meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from atoll.errors import AtollError, FencedError, StoppedError
from atoll.stream.drawing import described

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from atoll.cluster.deploy.last_run import LastRun
    from atoll.cluster.scaling.resting import RestingCluster


AppOrStopped: TypeAlias = "App | StoppedModule"
"""A module as it is: it runs, or this stands for it."""


class StoppedModule:
    """What stands for a module while it does not run. Made by the cluster.

    Args:
        name: The module.
        last: The version that is to run again.
        cluster: Its workers and placement, which can be changed meanwhile.
        failure: Why it does not run.
    """

    def __init__(
        self, name: str, last: LastRun, cluster: RestingCluster, failure: AtollError
    ) -> None:
        self.name = name
        self.last = last
        self.cluster = cluster
        self.failure = failure

    @property
    def fenced(self) -> FencedError | None:
        """Who runs it, when another process does."""
        return self.failure if isinstance(self.failure, FencedError) else None

    def on_fenced(self, listener: Callable[[FencedError], None]) -> None:
        """Be told at once when another process runs it."""
        if self.fenced is not None:
            listener(self.fenced)

    def depots(self) -> list[str]:
        """The names of the depots."""
        return sorted(self.last.deployment.depots)

    def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        return sorted(
            name
            for each in self.last.version.bound
            for name, spec in each.program.pstates.items()
            if not spec.private
        )

    def topologies(self) -> list[str]:
        """The names of the topologies."""
        return sorted(self.last.deployment.topologies)

    def graph(self) -> dict[str, Any]:
        """What it is made of, as of an app."""
        return described([each.declared.graph for each in self.last.version.bound], self.depots())

    def status(self) -> dict[str, Any]:
        """That it does not run, and why."""
        return {
            "module": self.name,
            "state": "stopped",
            "error": {
                "code": self.failure.code,
                "message": self.failure.message,
                "hint": self.failure.hint,
                "context": self.failure.context,
            },
            "topologies": {},
            "depots": {},
        }

    def depot(self, name: str) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def source(self, name: str) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def pstate(self, name: str) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def vnodes(self, pstate: str) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def story(self) -> NoReturn:
        """Refused."""
        self._refuse()

    def subscribe(self, pstate: str, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def wait(self, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def wait_idle(self, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        self._refuse()

    def wait_committed(self, depot: str, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def wait_fresh(self, pstate: str, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    def topology(self, name: str) -> NoReturn:  # noqa: ARG002 - as of an app
        """Refused."""
        self._refuse()

    @property
    def options(self) -> NoReturn:
        """Refused."""
        self._refuse()

    @property
    def queries(self) -> NoReturn:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        why = self.failure.message
        raise StoppedError(
            f"module {self.name!r} does not run: {why}", hint=self.failure.hint, module=self.name
        )
