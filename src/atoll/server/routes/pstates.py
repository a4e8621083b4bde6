"""PStates: what they are, and selecting from them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict

from atoll import path as paths
from atoll import schema
from atoll.errors import PathError, UsageError
from atoll.pstate.navigate.budget import Budget, within
from atoll.server.context import WAIT_SECONDS_MAX, ContextOf, Name, Token, answer
from atoll.views.readable import ReadablePState

router = APIRouter(prefix="/v1/modules/{module}/pstates", tags=["pstates"])


AsOf = Annotated[int | None, Query(ge=0)]
"""The microbatch after which the state is wanted; the last one when absent."""


FreshSeconds = Annotated[float | None, Query(gt=0, le=WAIT_SECONDS_MAX)]
"""How long to wait for what was appended before; not at all when absent."""


After = Annotated[Token | None, Query()]
"""The token of an append that the state must show."""

AfterSeconds = Annotated[float, Query(gt=0, le=WAIT_SECONDS_MAX)]
"""How long to wait until it does."""


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
async def select(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    module: Name,
    pstate: Name,
    wanted: Selection,
    as_of: AsOf = None,
    fresh_seconds: FreshSeconds = None,
    after: After = None,
    timeout_seconds: AfterSeconds = 60.0,
) -> Response:
    """Values at the last commit: ``{"values": [...]}``, or ``{"value": ...}`` with ``one``.

    With ``as_of`` they are those after an earlier microbatch. With ``fresh_seconds`` it waits, at
    most so long, until all is processed that the depots of the PState's topology hold now; with
    ``after``, an append's token, until what came of that append is shown.
    """
    app = context.app(module)
    found = app.pstate(pstate)
    if as_of is not None and (fresh_seconds is not None or after is not None):
        raise UsageError(
            "an earlier state is never fresh", hint="leave as_of out, or fresh_seconds and after"
        )
    if after is not None:
        shown = partial(found.after, after, timeout_seconds=timeout_seconds)
        await anyio.to_thread.run_sync(shown, limiter=context.wait_limiter)
    if fresh_seconds is not None:
        waiting = partial(app.wait_fresh, pstate, timeout_seconds=fresh_seconds)
        await anyio.to_thread.run_sync(waiting, limiter=context.wait_limiter)
    limits = context.settings
    budget = Budget(
        entries_max=limits.select_entries_max,
        bytes_max=limits.select_bytes_max,
        seconds_max=limits.select_seconds,
    )
    return answer(await context.in_thread(_within, budget, found, wanted, as_of))


def _within(
    budget: Budget, pstate: ReadablePState, wanted: Selection, as_of: int | None
) -> dict[str, Any]:
    with within(budget):
        return _select(pstate, wanted, as_of)


def _select(pstate: ReadablePState, wanted: Selection, as_of: int | None) -> dict[str, Any]:
    if as_of is not None:
        pstate = pstate.as_of(as_of)
    try:
        path = paths.from_json(wanted.path)
    except RecursionError:
        raise PathError("the path is nested too deeply", hint="write it flatter") from None
    if wanted.one:
        return {"value": pstate.select_one(path)}
    return {"values": pstate.select(path)}
