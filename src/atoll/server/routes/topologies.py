"""Topologies: how they are, pausing and resuming them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from atoll.server.context import ContextOf, Name, answer

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}/topologies", tags=["topologies"])


@router.get("")
async def list_topologies(context: ContextOf, module: Name) -> Response:
    """The names of the module's topologies."""
    return answer({"topologies": list(context.app(module).topologies())})


@router.get("/{topology}")
async def get_topology(context: ContextOf, module: Name, topology: Name) -> Response:
    """One topology's microbatch, lag and durations."""
    found = context.app(module).topology(topology)
    return answer(await context.in_thread(found.status))


@router.post("/{topology}/pause")
async def pause(context: ContextOf, module: Name, topology: Name) -> Response:
    """Let the running microbatch finish and start no other; answers with the status then."""
    found = context.app(module).topology(topology)
    await context.in_thread(found.pause)
    return answer(await context.in_thread(found.status))


@router.post("/{topology}/resume")
async def resume(context: ContextOf, module: Name, topology: Name) -> Response:
    """Go on, also after a failure; answers with the status."""
    found = context.app(module).topology(topology)
    await context.in_thread(found.resume)
    return answer(await context.in_thread(found.status))
