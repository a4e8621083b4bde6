"""Tails: the records of a depot from somewhere on, followed live if wished."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Header, Query, Request, Response
from starlette.exceptions import HTTPException

from atoll.codec.values.exchange import VALUES
from atoll.depot.tail_start import read_start
from atoll.server.context import ContextOf, Name, Token
from atoll.server.conventions.strict import Flag
from atoll.server.event_stream import EVENT_STREAM, EventStream, Wording, admit
from atoll.server.guard import ARROW_STREAM, NDJSON
from atoll.server.wording.records import RecordArrow, RecordEvents, RecordLines
from atoll.server.wording.values import RecordFrames

router = APIRouter(prefix="/v1/modules/{module}/depots", tags=["depots"])

_BATCH_RECORDS = 1000
_BATCH_RECORDS_MAX = 100_000


class Form(StrEnum):
    """How records are written."""

    EVENTS = "events"
    NDJSON = "ndjson"
    ARROW = "arrow"
    VALUES = "values"


_FORM_OF = {
    EVENT_STREAM: Form.EVENTS,
    NDJSON: Form.NDJSON,
    ARROW_STREAM: Form.ARROW,
    VALUES: Form.VALUES,
}
_ANY = ("*/*", "application/*", "application/json")


@router.get(
    "/{depot}/records",
    response_class=Response,
    responses={200: {"content": {EVENT_STREAM: {}, NDJSON: {}, ARROW_STREAM: {}, VALUES: {}}}},
)
async def tail_records(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    request: Request,
    module: Name,
    depot: Name,
    start: Annotated[Token, Query(alias="from")] = "beginning",
    partition: Annotated[int | None, Query(ge=0)] = None,
    follow: Flag | None = None,
    batch_records: Annotated[int, Query(ge=1, le=_BATCH_RECORDS_MAX)] = _BATCH_RECORDS,
    form: Annotated[Form | None, Query(alias="format")] = None,
    last_event_id: Annotated[Token | None, Header()] = None,
) -> Response:
    """The acknowledged records of a depot, each once, in order per depot partition.

    They begin ``from`` the ``beginning``, the ``end``, an offset, a time such as
    ``2026-01-31T12:00:00Z``, or behind a position; the header ``Last-Event-ID`` counts before
    that. With ``follow`` new ones come as they are appended (for events unless told otherwise),
    else the answer ends with what is there. As server-sent events, NDJSON or an Arrow stream, by
    the header ``Accept`` or ``format``.
    """
    chosen = form or _accepted(request.headers.get("accept", "*/*"))
    found = context.app(module).depot(depot)
    admit(context)
    opening = partial(
        found.tail,
        read_start(last_event_id or start),
        partition=partition,
        follow=chosen is Form.EVENTS if follow is None else follow,
        batch_records=batch_records,
    )
    told = await context.in_thread(opening)
    context.subscriptions.add(told)
    try:
        return EventStream(context, told, _wording(chosen, found.spec.schema))
    except BaseException:
        told.close()
        context.subscriptions.discard(told)
        raise


def _wording(form: Form, schema: pa.Schema) -> Wording:
    match form:
        case Form.ARROW:
            return RecordArrow(schema)
        case Form.NDJSON:
            return RecordLines()
        case Form.VALUES:
            return RecordFrames()
    return RecordEvents()


def _accepted(header: str) -> Form:
    """The first form that a request accepts; lines of JSON where it does not care."""
    kinds = [each.partition(";")[0].strip().lower() for each in header.split(",")]
    for kind in kinds:
        if kind in _FORM_OF:
            return _FORM_OF[kind]
        if kind in _ANY:
            return Form.NDJSON
    raise HTTPException(406, f"records cannot be written as {header[:100]}")
