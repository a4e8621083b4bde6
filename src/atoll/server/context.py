"""What every route needs: the modules by name, the settings, and the threads to block in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, Path, Request, Response
from pydantic import Field

from atoll.access.roles import Caller, local_caller
from atoll.cluster.deploy.redeployer import Redeployer
from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.cluster.scaling.over_modules import RootCluster
from atoll.codec.values.exchange import VALUES, packed
from atoll.depot.receipt import TOKEN_CHARACTERS_MAX
from atoll.errors import AtollError, NotFoundError, UsageError
from atoll.runtime.service.following import FollowedRuntimes
from atoll.runtime.service.registry import Registered
from atoll.runtime.service.runtimes import Runtimes
from atoll.server.metrics import Metrics
from atoll.server.render import render_json
from atoll.server.settings import ServerSettings

CALLER = "atoll.caller"
"""Where a request carries who calls; None where that is not known."""

WAIT_SECONDS_MAX = 300
"""So long a request may wait until records are processed."""

_Result = TypeVar("_Result")

Token = Annotated[str, Field(max_length=TOKEN_CHARACTERS_MAX)]
"""The token of a receipt."""

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
"""A name in a URL: what a module may call its parts, so never a path and never a pattern."""


class Closed(Protocol):
    """What ends when it is closed."""

    def close(self) -> None:
        """End it."""


class Served(Mapping[str, AppOrStopped]):
    """The modules as they are now: one that can be deployed again is another app each time.

    Args:
        apps: As they were when the service began.
        deployers: For each module that can be deployed again what does it.
        runtimes: Whose modules are served too, for reading: their events come in by another way.
    """

    def __init__(
        self,
        apps: Mapping[str, AppOrStopped],
        deployers: Mapping[str, Redeployer],
        runtimes: Runtimes | FollowedRuntimes | None = None,
    ) -> None:
        self._apps = apps
        self._deployers = deployers
        self._runtimes = runtimes

    def __getitem__(self, name: str) -> AppOrStopped:
        """The module as it runs, or what stands for it while it does not."""
        if name in self._deployers:
            return self._deployers[name].app
        return self._apps[name] if name in self._apps else self._of_runtimes()[name]

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter([*self._apps, *self._of_runtimes()])

    def __len__(self) -> int:
        """How many there are."""
        return len(self._apps) + len(self._of_runtimes())

    def is_runtime(self, name: str) -> bool:
        """Whether a module is that of a runtime."""
        return name not in self._apps and name in self._of_runtimes()

    def _of_runtimes(self) -> Mapping[str, AppOrStopped]:
        return {} if self._runtimes is None else self._runtimes.apps()


class _SeenBy(Served):
    """Those of the modules that somebody may see.

    Args:
        served: All.
        caller: Who looks.
    """

    def __init__(self, served: Served, caller: Caller) -> None:
        self._served = served
        self._caller = caller

    def __getitem__(self, name: str) -> AppOrStopped:
        if not self._caller.sees(name):
            raise KeyError(name)
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return filter(self._caller.sees, self._served)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def is_runtime(self, name: str) -> bool:
        return self._served.is_runtime(name)


@dataclass(frozen=True, slots=True)
class Context:
    """Made once per application; shared by all requests."""

    apps: Served
    settings: ServerSettings
    metrics: Metrics
    stream_limiter: anyio.CapacityLimiter
    """Threads for streamed bodies: apart, so that slow senders never hold up the readers."""
    change_limiter: anyio.CapacityLimiter
    """Threads for changes that wait for a microbatch: apart for the same reason."""
    query_limiter: anyio.CapacityLimiter
    """Threads that wait for queries."""
    subscriber_limiter: anyio.CapacityLimiter
    """Threads for subscribers that wait for commits: one each."""
    wait_limiter: anyio.CapacityLimiter
    """Threads that wait until records are processed."""
    subscriptions: set[Closed] = field(default_factory=set)
    """What is told without an end, and open: subscriptions and tails."""
    runtimes: Runtimes | FollowedRuntimes | None = None
    """The runtimes of the root, where they are served."""
    deployers: Mapping[str, Redeployer] = field(default_factory=dict)
    """For each module that can be deployed again what does it."""
    cluster: RootCluster | None = None
    """That of the root, over all its modules."""

    caller: Caller | None = field(default_factory=local_caller)
    """Who calls; None where that is not known."""

    def seen_by(self, caller: Caller | None) -> Context:
        """The service as somebody sees it, who may be for some modules only."""
        apps = self.apps
        if caller is not None and caller.modules is not None:
            apps = _SeenBy(apps, caller)
        return replace(self, apps=apps, caller=caller)

    def sees(self, module: str) -> bool:
        """Whether a module is there for who calls."""
        return self.caller is not None and self.caller.sees(module)

    def of_root(self) -> RootCluster:
        """The cluster of the root.

        Raises:
            UsageError: When the service was not told of it.
        """
        if self.cluster is None:
            raise UsageError(
                "this service knows nothing of the cluster of its root",
                hint="start it with atoll run, which serves the cluster of its root",
            )
        return self.cluster

    def app(self, module: str) -> AppOrStopped:
        """The deployed module of that name.

        Raises:
            NotFoundError: When there is none.
        """
        try:
            return self.apps[module]
        except KeyError:
            raise NotFoundError(
                f"no module {module!r} runs here",
                hint=f"running: {', '.join(sorted(self.apps)) or 'none'}",
                module=module,
            ) from None

    def failure_of(self, runtime: Registered) -> AtollError | None:
        """Why a runtime does not run here as it should; None when it does."""
        return None if self.runtimes is None else self.runtimes.failure(runtime)

    def deployer(self, module: str) -> Redeployer:
        """What deploys a module again.

        Raises:
            UsageError: When the service was not told where its code is.
        """
        if module not in self.deployers:
            raise UsageError(
                f"this service cannot deploy module {module!r}",
                hint="start it with atoll run, or deploy from the process that runs it",
            )
        return self.deployers[module]

    async def in_thread(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call what may block, off the event loop."""
        return await anyio.to_thread.run_sync(partial(function, *arguments))

    async def in_waiting_thread(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call what waits for microbatches, off the event loop."""
        return await anyio.to_thread.run_sync(
            partial(function, *arguments), limiter=self.change_limiter
        )


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context.seen_by(request.scope[CALLER])


ContextOf = Annotated[Context, Depends(_context)]
"""Declares that a route wants the context."""


def wants_values(request: Request) -> bool:
    """Whether the client asks for values as they are, and not as JSON."""
    return VALUES in request.headers.get("accept", "")


def answer_values(request: Request, data: Any) -> Response:
    """Data as the client asks for it: as JSON, or its values exactly as they are."""
    if wants_values(request):
        return Response(packed(data), media_type=VALUES)
    return answer(data)


def answer(data: Any, status: int = 200) -> Response:
    """Data as a JSON answer, rendered as ``render`` documents."""
    return Response(render_json(data), status_code=status, media_type="application/json")
