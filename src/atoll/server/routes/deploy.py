"""Deploying a new version of a module over the running one, from where the service found it."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from atoll.server.context import ContextOf, Name, answer

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}/deploy", tags=["modules"])

_REMOVED_MAX = 1_000


class Deploy(BaseModel):
    """Whether only to plan, and what may go; never where code is, which the operator says."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = False
    remove: list[str] = Field(default_factory=list, max_length=_REMOVED_MAX)


@router.post("")
async def deploy(context: ContextOf, module: Name, wanted: Deploy) -> Response:
    """Read the module's code again and deploy it; answers with the plan of what changes."""
    context.app(module)
    deployer = context.deployer(module)
    plan, app = await context.in_waiting_thread(
        partial(deployer, remove=tuple(wanted.remove), dry_run=wanted.dry_run)
    )
    if app is not None:
        context.apps[module] = app
    return answer({**plan, "dry_run": wanted.dry_run})
