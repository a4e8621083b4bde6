"""Which modules run here, what they are made of, and how they are."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

import atoll
from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.server.context import ContextOf, Name, answer

router = APIRouter(prefix="/v1", tags=["modules"])


@router.get("/modules")
async def list_modules(context: ContextOf) -> Response:
    """All modules with the names of their parts."""
    return answer({"modules": [_parts(app) for app in context.apps.values()]})


@router.get("/modules/{module}")
async def get_module(context: ContextOf, module: Name) -> Response:
    """One module with the names of its parts."""
    return answer(_parts(context.app(module)))


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
