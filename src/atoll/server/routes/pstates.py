"""PStates: what they are, and selecting from them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict

from atoll import path as paths
from atoll import schema
from atoll.errors import PathError
from atoll.server.context import ContextOf, Name, answer
from atoll.server.ports import PStatePort

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}/pstates", tags=["pstates"])


AsOf = Annotated[int | None, Query(ge=0)]
"""The microbatch after which the state is wanted; the last one when absent."""


class Selection(BaseModel):
    """What to read: a path as JSON, and whether it must lead to exactly one value."""

    model_config = ConfigDict(extra="forbid")

    path: list[Any]
    one: bool = False


@router.get("")
async def list_pstates(context: ContextOf, module: Name) -> Response:
    """The names of the module's PStates."""
    return answer({"pstates": list(context.app(module).pstates())})


@router.get("/{pstate}")
async def get_pstate(context: ContextOf, module: Name, pstate: Name) -> Response:
    """One PState: its schema, the topology that writes it, its vnodes."""
    spec = context.app(module).pstate(pstate).spec
    return answer(
        {
            "name": pstate,
            "schema": schema.to_json(spec.node),
            "topology": spec.topology,
            "vnode_count": spec.vnode_count,
        }
    )


@router.post("/{pstate}/select")
async def select(
    context: ContextOf, module: Name, pstate: Name, wanted: Selection, as_of: AsOf = None
) -> Response:
    """Values at the last commit: ``{"values": [...]}``, or ``{"value": ...}`` with ``one``.

    With ``as_of`` they are those after an earlier microbatch.
    """
    found = context.app(module).pstate(pstate)
    return answer(await context.in_thread(_select, found, wanted, as_of))


def _select(pstate: PStatePort, wanted: Selection, as_of: int | None) -> dict[str, Any]:
    if as_of is not None:
        pstate = pstate.as_of(as_of)
    try:
        path = paths.from_json(wanted.path)
    except RecursionError:
        raise PathError("the path is nested too deeply", hint="write it flatter") from None
    if wanted.one:
        return {"value": pstate.select_one(path)}
    return {"values": pstate.select(path)}
