"""Depots: what they are, and appending to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.ddl import to_ddl
from atoll.depot.depot import Appended, Depot, OnInvalid
from atoll.errors import UsageError
from atoll.server.body import BodyFile, drain
from atoll.server.context import WAIT_SECONDS_MAX, Context, ContextOf, Name, answer
from atoll.server.guard import ARROW_STREAM, CSV, JSON, NDJSON, media_type
from atoll.server.intake import BATCHES_OF, batches_of_json, producer_of

router = APIRouter(prefix="/v1/modules/{module}/depots", tags=["depots"])

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"oneOf": [{"type": "object"}, {"type": "array"}]}},
            NDJSON: {"schema": {"type": "string"}},
            CSV: {"schema": {"type": "string"}},
            ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


Partition = Annotated[str, Field(pattern=r"^[0-9]{1,6}$")]
"""A depot partition as the name of a JSON member."""


class Wait(BaseModel):
    """What to wait for: by depot partition the offset after the last record, or all there is."""

    model_config = ConfigDict(extra="forbid")

    ends: dict[Partition, Annotated[int, Field(ge=0)]] | None = None
    timeout_seconds: float = Field(default=60.0, gt=0, le=WAIT_SECONDS_MAX)


@router.get("")
async def list_depots(context: ContextOf, module: Name) -> Response:
    """The names of the module's depots."""
    return answer({"depots": list(context.app(module).depots())})


@router.get("/{depot}")
async def get_depot(context: ContextOf, module: Name, depot: Name) -> Response:
    """One depot: its schema as Spark DDL, its depot partitions and their offsets."""
    found = context.app(module).depot(depot)
    return answer(await context.in_thread(_describe, found))


@router.post("/{depot}/records", openapi_extra=_BODY)
async def append_records(
    context: ContextOf,
    request: Request,
    module: Name,
    depot: Name,
    on_invalid: OnInvalid = "none",
) -> Response:
    """Append records; answered when they are on disk.

    A JSON body is one record or an array. NDJSON, CSV
    (with a header line) and Arrow streams may be of any size. With
    ``on_invalid=none`` one refused record refuses the whole call; with ``keep`` the good ones
    are kept. Refused records are listed with their line and reason. With ``Atoll-Producer-Id``
    and ``Atoll-Producer-Sequence`` an append that is sent again is stored once.
    """
    if context.apps.is_runtime(module):
        raise UsageError(
            f"module {module!r} is a runtime, which takes events for its actors only",
            hint="POST them to /api/runtimes/<runtime>/actors/<actor>",
        )
    found = context.app(module).depot(depot)
    producer = producer_of(request.headers)
    append, codec = partial(found.append_stream, producer=producer), found.codec_for(producer)
    kind = media_type(request.headers)
    if kind == JSON:
        batches = batches_of_json(codec, await request.body())
        appended = await context.in_thread(append, batches, on_invalid)
    elif kind in BATCHES_OF:
        appended = await _append_streamed(
            context, request, codec, partial(append, on_invalid=on_invalid)
        )
    else:
        raise HTTPException(415, f"records cannot be read from {kind}")
    return answer(_appended(appended, context.settings.refusals_max))


@router.post("/{depot}/wait")
async def wait(context: ContextOf, module: Name, depot: Name, wanted: Wait) -> Response:
    """Answer when all topologies of the module that read the depot have committed the records.

    Then a query shows what they did: ``{"committed": {topology: microbatch}}``.
    """
    ends = None if wanted.ends is None else {int(part): at for part, at in wanted.ends.items()}
    waiting = partial(
        context.app(module).wait_committed, depot, ends, timeout_seconds=wanted.timeout_seconds
    )
    committed = await anyio.to_thread.run_sync(waiting, limiter=context.wait_limiter)
    return answer({"committed": dict(committed)})


async def _append_streamed(
    context: Context,
    request: Request,
    codec: RecordCodec,
    append: Callable[[Iterable[Checked]], Appended],
) -> Appended:
    chunks = request.stream()
    body = BodyFile(
        chunks,
        chunk_timeout_seconds=context.settings.chunk_timeout_seconds,
        read_bytes_max=context.settings.message_bytes_max,
    )
    read = BATCHES_OF[media_type(request.headers)]
    batches: Iterable[Checked] = read(codec, body, context.settings.line_bytes_max)
    try:
        return await anyio.to_thread.run_sync(
            partial(append, batches), limiter=context.stream_limiter
        )
    except Exception:
        await drain(chunks)
        raise


def _appended(appended: Appended, refusals_max: int) -> dict[str, Any]:
    return {
        "appended": appended.count,
        "offsets": {str(part): list(span) for part, span in appended.offsets.items()},
        "duplicate": appended.duplicate,
        "refused": appended.refused_count,
        "refusals": [
            {"line": refusal.line, "reason": refusal.reason}
            for refusal in appended.refusals[:refusals_max]
        ],
    }


def _describe(depot: Depot) -> dict[str, Any]:
    start, end = list(depot.start_offsets()), list(depot.end_offsets())
    return {
        "name": depot.spec.name,
        "ddl": to_ddl(depot.spec.schema),
        "partitions": depot.spec.partitions,
        "start_offsets": start,
        "end_offsets": end,
        "records": sum(end) - sum(start),
    }
