"""Deploying a new version of a module over the running one, from where the service found it."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response
from pydantic import Field

from atoll.server.context import ContextOf, Name, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute

router = APIRouter(route_class=StrictRoute, prefix="/v1/modules/{module}/deploy", tags=["modules"])

_REMOVED_MAX = 1_000


class Deploy(StrictModel):
    """Whether only to plan, and what may go; never where code is, which the operator says."""

    dry_run: bool = False
    remove: list[str] = Field(default_factory=list, max_length=_REMOVED_MAX)


@router.post("")
async def deploy(context: ContextOf, module: Name, wanted: Deploy) -> Response:
    """Read the module's code again and deploy it; answers with the plan of what changes.

    Unless it was a dry run, each topology's state is told too: what was paused stays so.
    """
    context.app(module)
    deployer = context.deployer(module)
    plan = await context.in_waiting_thread(
        partial(deployer, remove=tuple(wanted.remove), dry_run=wanted.dry_run)
    )
    done = {**plan, "dry_run": wanted.dry_run}
    if not wanted.dry_run:
        status = await context.in_thread(context.app(module).status)
        done["topologies"] = {
            name: {"state": each["state"], "paused": each.get("paused")}
            for name, each in status["topologies"].items()
        }
    return answer(done)
