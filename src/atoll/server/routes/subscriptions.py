"""Subscriptions: each commit's changes of one value, as server-sent events."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request, Response

from atoll import path as paths
from atoll.codec.values.exchange import VALUES
from atoll.errors import PathError, UsageError
from atoll.pstate.navigate.budget import Budget, within
from atoll.server.context import WAIT_SECONDS_MAX, Context, ContextOf, Name, Token, wants_values
from atoll.server.event_stream import EVENT_STREAM, ChangeEvents, EventStream, admit
from atoll.server.wording.values import ChangeFrames
from atoll.views.subscription import Subscription
from atoll.views.value_change import ValueChange

router = APIRouter(prefix="/v1/modules/{module}/pstates", tags=["pstates"])

_PATH_CHARACTERS_MAX = 10_000
_POSITION_CHARACTERS_MAX = 40
_PAGE_ENTRIES_MAX = 100_000


@router.get(
    "/{pstate}/subscribe",
    response_class=Response,
    responses={200: {"content": {EVENT_STREAM: {}, VALUES: {}}}},
)
async def subscribe(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    request: Request,
    module: Name,
    pstate: Name,
    path: Annotated[str, Query(max_length=_PATH_CHARACTERS_MAX)] = "[]",
    after: Annotated[Token | None, Query()] = None,
    page_entries: Annotated[int, Query(ge=1, le=_PAGE_ENTRIES_MAX)] = 1000,
    last_event_id: Annotated[str | None, Header(max_length=_POSITION_CHARACTERS_MAX)] = None,
    timeout_seconds: Annotated[float, Query(gt=0, le=WAIT_SECONDS_MAX)] = 60.0,
) -> Response:
    """The changes of the value that a path (as JSON) leads to; the value itself comes first.

    With ``after``, or the header ``Last-Event-ID``, they go on from that position. With the token
    of an append as ``after`` they begin as soon as the value shows what came of it.
    """
    app = context.app(module)
    wanted = _path_of(path)
    admit(context)
    position = last_event_id or after or None
    opening = partial(app.subscribe, after=position, page_entries=page_entries)
    subscription = await anyio.to_thread.run_sync(
        partial(opening, pstate, wanted, timeout_seconds=timeout_seconds),
        limiter=context.wait_limiter,
    )
    context.subscriptions.add(subscription)
    try:
        budget = Budget(seconds_max=context.settings.select_seconds)
        first = await context.in_thread(_first, subscription, budget)
        wording = ChangeFrames() if wants_values(request) else ChangeEvents()
        return EventStream(context, subscription, wording, first)
    except BaseException:
        _drop(context, subscription)
        raise


def _first(subscription: Subscription, budget: Budget) -> ValueChange | None:
    with within(budget):
        return subscription.next(0)


def _drop(context: Context, subscription: Subscription) -> None:
    subscription.close()
    context.subscriptions.discard(subscription)


def _path_of(text: str) -> Any:
    try:
        return paths.from_json(json.loads(text))
    except RecursionError:
        raise PathError("the path is nested too deeply", hint="write it flatter") from None
    except ValueError:
        raise UsageError(
            "path is no JSON", hint='write it like [["key","a"]], encoded for a URL'
        ) from None
