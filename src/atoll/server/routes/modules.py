"""Which modules run here, what they are made of, and how they are."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Response
from pydantic import Field

import atoll
from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.errors import UsageError
from atoll.server.context import WAIT_SECONDS_MAX, ContextOf, Name, Token, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute

router = APIRouter(route_class=StrictRoute, prefix="/v1", tags=["modules"])


class Awaiting(StrictModel):
    """What to wait for: appends, by their tokens, or until nothing is left to do; and how long."""

    tokens: Annotated[list[Token], Field(min_length=1, max_length=64)] | None = None
    idle: bool = False
    timeout_seconds: float = Field(default=60.0, gt=0, le=WAIT_SECONDS_MAX)


@router.get("/modules")
async def list_modules(context: ContextOf) -> Response:
    """All modules with the names of their parts."""
    return answer({"modules": [_parts(app) for app in context.apps.values()]})


@router.get("/modules/{module}")
async def get_module(context: ContextOf, module: Name) -> Response:
    """One module with the names of its parts."""
    return answer(_parts(context.app(module)))


@router.get("/modules/{module}/graph")
async def get_graph(context: ContextOf, module: Name) -> Response:
    """Its depots, steps and PStates as ``nodes``, and the ``edges`` between them."""
    return answer(await context.in_thread(context.app(module).graph))


@router.post("/modules/{module}/wait")
async def wait(context: ContextOf, module: Name, wanted: Awaiting) -> Response:
    """Answer when readers see all that comes of some appends: ``{"committed": {topology: id}}``.

    With ``idle`` when no topology has anything left to do.
    """
    app, seconds = context.app(module), wanted.timeout_seconds
    if (wanted.tokens is None) != wanted.idle:
        raise UsageError(
            "a module is waited for by tokens, or until it is idle",
            hint='send {"tokens": ["r..."]} or {"idle": true}',
        )

    def waiting() -> dict[str, int]:
        if wanted.tokens is not None:
            return dict(app.wait(*wanted.tokens, timeout_seconds=seconds))
        app.wait_idle(timeout_seconds=seconds)
        return {name: app.topology(name).published.id for name in app.topologies()}

    committed = await anyio.to_thread.run_sync(waiting, limiter=context.wait_limiter)
    return answer({"committed": committed})


@router.get("/modules/{module}/status")
async def get_module_status(context: ContextOf, module: Name) -> Response:
    """What changes of one module: its topologies' microbatch, lag and durations."""
    return answer(await context.in_thread(context.app(module).status))


@router.get("/status")
async def get_status(context: ContextOf) -> Response:
    """What changes: per module its topologies' microbatch, lag and durations."""

    def collect() -> dict[str, Any]:
        return {name: app.status() for name, app in context.apps.items()}

    modules = await context.in_thread(collect)
    return answer({"version": atoll.__version__, "modules": modules})


def _parts(app: AppOrStopped) -> dict[str, Any]:
    return {
        "name": app.name,
        "depots": list(app.depots()),
        "pstates": list(app.pstates()),
        "topologies": list(app.topologies()),
    }
