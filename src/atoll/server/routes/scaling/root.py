"""The cluster of the root, over all its modules, those that other processes run among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from atoll.cluster.description import described_plan
from atoll.server.context import Context, ContextOf, answer
from atoll.server.conventions.strict import StrictRoute
from atoll.server.routes.scaling.module import (
    ParallelismOf,
    Reschedule,
    Units,
    Workers,
    rescheduled,
)

router = APIRouter(route_class=StrictRoute, prefix="/v1/cluster", tags=["cluster"])


@router.get("")
async def get_cluster_of_root(context: ContextOf) -> Response:
    """Revision, policies, workers, the fragments of all modules, and one matrix of them."""
    return answer(await context.in_thread(context.of_root().describe))


@router.post("/reschedule")
async def reschedule_over_modules(context: ContextOf, wanted: Reschedule) -> Response:
    """Change which units run some fragments, of whichever modules, all or nothing."""
    return await rescheduled(context, context.of_root().reschedule, wanted)


@router.post("/parallelism")
async def set_parallelism_of_module(context: ContextOf, wanted: ParallelismOf) -> Response:
    """Let a policy decide the parallelism of a topology of any module."""
    plan = await context.in_waiting_thread(
        partial(
            context.of_root().set_parallelism,
            wanted.module,
            wanted.topology,
            wanted.policy,
            dry_run=wanted.dry_run,
            timeout_seconds=wanted.timeout_seconds,
        )
    )
    return answer(described_plan(plan, dry_run=wanted.dry_run))


@router.post("/units")
async def set_units(context: ContextOf, wanted: Units) -> Response:
    """Give this process so many parallel units from now on; answers with the cluster."""
    await context.in_waiting_thread(context.of_root().set_units, wanted.units)
    return answer(await context.in_thread(context.of_root().describe))


@router.post("/cordon")
async def cordon_for_all(context: ContextOf, wanted: Workers) -> Response:
    """Give workers no new actors, of any module; answers with the cluster."""
    return await _changed(context, context.of_root().cordon, wanted)


@router.post("/leave")
async def leave_for_all(context: ContextOf, wanted: Workers) -> Response:
    """Let workers end soon: what they run moves to others; answers with the cluster."""
    return await _changed(context, context.of_root().leave, wanted)


@router.post("/uncordon")
async def uncordon_for_all(context: ContextOf, wanted: Workers) -> Response:
    """Let workers get new actors again; answers with the cluster."""
    return await _changed(context, context.of_root().uncordon, wanted)


@router.post("/remove")
async def remove_for_all(context: ContextOf, wanted: Workers) -> Response:
    """Forget workers that run nothing, of any module; answers with the cluster."""
    return await _changed(context, context.of_root().remove, wanted)


async def _changed(
    context: Context, change: Callable[[Iterable[int]], Any], wanted: Workers
) -> Response:
    await context.in_waiting_thread(change, wanted.workers)
    return answer(await context.in_thread(context.of_root().describe))
