"""Queries: what there is, and asking them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from atoll.server.context import ContextOf, Name, answer

router = APIRouter(prefix="/v1/modules/{module}/queries", tags=["queries"])

_SECONDS_MAX = 300.0


class Question(BaseModel):
    """What a query is asked, and how long the answer may take."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, Any] = {}
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
async def ask(context: ContextOf, module: Name, query: Name, question: Question) -> Response:
    """The answer: ``{"answer": ...}``, all its reads at one commit of each topology."""
    ask_query = partial(
        context.app(module).queries.ask,
        query,
        question.arguments,
        question.timeout_seconds,
        outside=True,
    )
    found = await anyio.to_thread.run_sync(ask_query, limiter=context.query_limiter)
    return answer({"answer": found})
