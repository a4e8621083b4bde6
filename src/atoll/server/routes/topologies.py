"""Topologies: how they are, pausing and resuming them, checkpoints, going back."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from atoll.errors import NotFoundError
from atoll.server.context import ContextOf, Name, answer
from atoll.server.conventions.strict import Flag, StrictModel, StrictRoute

router = APIRouter(
    route_class=StrictRoute, prefix="/v1/modules/{module}/topologies", tags=["topologies"]
)

_LONG = ("ranges", "operators")
"""What a list of microbatches leaves out."""


class Rollback(StrictModel):
    """Where to go back to, whether appended rows may stay, or only what would be done."""

    to_microbatch: int = Field(ge=0)
    keep_appended: bool = False
    dry_run: bool = False


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
async def list_microbatches(
    context: ContextOf,
    module: Name,
    topology: Name,
    after: Annotated[int, Query(ge=0)] = 0,
    whole: Flag = False,  # noqa: FBT002 - a parameter of the request
) -> Response:
    """The last microbatches, oldest first, behind one if wished.

    Of each its id, records, version and milliseconds by numbered step (null of those committed
    before this life of the topology); the rest of one is at its own address, or here with
    ``whole``.
    """
    found = context.app(module).topology(topology)
    recent = await context.in_thread(found.recent_microbatches)
    told = [each if whole else _short(each) for each in recent if each["id"] > after]
    return answer({"microbatches": told})


@router.get("/{topology}/microbatches/{number}")
async def get_one_microbatch(
    context: ContextOf, module: Name, topology: Name, number: Annotated[int, Path(ge=1)]
) -> Response:
    """One of them: ranges, rows and milliseconds per step, skew, and attempts that failed."""
    found = context.app(module).topology(topology)
    recent = await context.in_thread(found.recent_microbatches)
    for each in recent:
        if each["id"] == number:
            return answer(each)
    kept = f"{recent[0]['id']} to {recent[-1]['id']}" if recent else "none yet"
    raise NotFoundError(
        f"nothing is remembered of microbatch {number}",
        hint=f"this process remembers the last 256 that the root knows: {kept}",
    )


def _short(microbatch: dict[str, Any]) -> dict[str, Any]:
    short = {name: each for name, each in microbatch.items() if name not in _LONG}
    failed = microbatch["failed_attempts"]  # of an earlier life the versions tell how many
    count = microbatch["version"] - 1 if failed is None else len(failed)
    return {**short, "failed_attempts": count}


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
    """Go back to the state after an earlier microbatch, and pause; answers with the status.

    With ``dry_run`` nothing changes, and the answer is what would be done, or why it is refused.
    """
    found = context.app(module).topology(topology)
    if wanted.dry_run:
        return answer(await context.in_thread(found.rollback_plan, wanted.to_microbatch))
    await context.in_waiting_thread(
        partial(found.rollback, wanted.to_microbatch, keep_appended=wanted.keep_appended)
    )
    return answer(await context.in_thread(found.status))
