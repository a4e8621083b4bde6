"""Queries: what there is, and asking them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from atoll.server.context import ContextOf, Name, Token, answer, answer_values
from atoll.server.conventions.strict import StrictModel, StrictRoute

router = APIRouter(route_class=StrictRoute, prefix="/v1/modules/{module}/queries", tags=["queries"])

_SECONDS_MAX = 300.0

After = Annotated[Token | None, Query()]
"""The token of an append that the answer must show."""


class Question(StrictModel):
    """What a query is asked, and how long the answer may take."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: Annotated[float, Field(gt=0, le=_SECONDS_MAX)] = 10.0


@router.get("")
async def list_queries(context: ContextOf, module: Name) -> Response:
    """The names of the module's queries."""
    return answer({"queries": list(context.app(module).queries.names())})


@router.get("/{query}")
async def get_query(context: ContextOf, module: Name, query: Name) -> Response:
    """One query: the types of its parameters, and what it returns."""
    return answer(context.app(module).queries.describe(query))


@router.post("/{query}")
async def ask(
    context: ContextOf,
    request: Request,
    module: Name,
    query: Name,
    question: Question,
    after: After = None,
) -> Response:
    """The answer: ``{"answer": ...}``, all its reads at one commit of each topology.

    With ``after``, an append's token, those commits show what came of that append; that is waited
    for as long as for the answer.
    """
    if after is not None:
        waiting = partial(context.app(module).wait, after, timeout_seconds=question.timeout_seconds)
        await anyio.to_thread.run_sync(waiting, limiter=context.wait_limiter)
    ask_query = partial(
        context.app(module).queries.ask,
        query,
        question.arguments,
        question.timeout_seconds,
        outside=True,
    )
    found = await anyio.to_thread.run_sync(ask_query, limiter=context.query_limiter)
    return answer_values(request, {"answer": found})
