"""Topologies: how they are, pausing and resuming them, checkpoints, going back."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from atoll.microbatch.control.status import MICROBATCHES_TOLD
from atoll.server.context import ContextOf, Name, answer

router = APIRouter(prefix="/v1/modules/{module}/topologies", tags=["topologies"])


class Rollback(BaseModel):
    """Where to go back to, and whether appended rows may stay."""

    model_config = ConfigDict(extra="forbid")

    to_microbatch: int = Field(ge=0)
    keep_appended: bool = False


@router.get("")
async def list_topologies(context: ContextOf, module: Name) -> Response:
    """The names of the module's topologies."""
    return answer({"topologies": list(context.app(module).topologies())})


@router.get("/{topology}")
async def get_topology(context: ContextOf, module: Name, topology: Name) -> Response:
    """One topology's microbatch, lag and durations."""
    found = context.app(module).topology(topology)
    return answer(await context.in_thread(found.status))


@router.get("/{topology}/microbatch")
async def get_microbatch(context: ContextOf, module: Name, topology: Name) -> Response:
    """What it is at: the microbatch's id, version, phase and ranges, and since when."""
    found = context.app(module).topology(topology)
    return answer(await context.in_thread(found.microbatch_state.get))


@router.get("/{topology}/microbatches")
async def get_microbatches(
    context: ContextOf,
    module: Name,
    topology: Name,
    last: Annotated[int, Query(ge=1, le=MICROBATCHES_TOLD)] = 20,
) -> Response:
    """The last microbatches, oldest first: which records, failed attempts, durations by step."""
    found = context.app(module).topology(topology)
    told = await context.in_thread(found.recent_microbatches)
    return answer({"microbatches": told[-last:]})


@router.post("/{topology}/pause")
async def pause(context: ContextOf, module: Name, topology: Name) -> Response:
    """Let the running microbatch finish and start no other; answers with the status then."""
    found = context.app(module).topology(topology)
    await context.in_waiting_thread(found.pause)
    return answer(await context.in_thread(found.status))


@router.post("/{topology}/resume")
async def resume(context: ContextOf, module: Name, topology: Name) -> Response:
    """Go on, also after a failure; answers with the status."""
    found = context.app(module).topology(topology)
    await context.in_waiting_thread(found.resume)
    return answer(await context.in_thread(found.status))


@router.post("/{topology}/checkpoint")
async def checkpoint(context: ContextOf, module: Name, topology: Name) -> Response:
    """Write what changed to checkpoints; answers with the status, and the commit with them."""
    found = context.app(module).topology(topology)
    commit = await context.in_waiting_thread(found.checkpoint)
    return answer({**await context.in_thread(found.status), "checkpoint": commit})


@router.post("/{topology}/rollback")
async def rollback(context: ContextOf, module: Name, topology: Name, wanted: Rollback) -> Response:
    """Go back to the state after an earlier microbatch, and pause; answers with the status."""
    found = context.app(module).topology(topology)
    await context.in_waiting_thread(
        partial(found.rollback, wanted.to_microbatch, keep_appended=wanted.keep_appended)
    )
    return answer(await context.in_thread(found.status))
