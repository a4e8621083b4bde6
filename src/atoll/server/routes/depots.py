"""Depots: what they are, and appending to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.ddl import to_ddl
from atoll.depot.depot import Depot, OnInvalid
from atoll.depot.receipt import Receipt
from atoll.errors import AtollError, UsageError
from atoll.server.body import BodyFile, drain
from atoll.server.context import WAIT_SECONDS_MAX, Context, ContextOf, Name, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute
from atoll.server.guard import ARROW_STREAM, CSV, JSON, NDJSON, media_type
from atoll.server.intake import BATCHES_OF, batches_of_json, producer_of

router = APIRouter(route_class=StrictRoute, prefix="/v1/modules/{module}/depots", tags=["depots"])

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


Acknowledged = Literal["stored", "processed"]
"""When an append is answered: once it is on disk, or once readers see what came of it."""

WaitSeconds = Annotated[float, Query(gt=0, le=WAIT_SECONDS_MAX)]
"""How long to wait until records are processed."""


class Wait(StrictModel):
    """What to wait for: by depot partition the offset after the last record, or all there is."""

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


@router.get("/{depot}/source")
async def get_source(context: ContextOf, module: Name, depot: Name) -> Response:
    """What feeds the depot from outside: state, position, lag, last failure."""
    found = context.app(module).source(depot)
    return answer(await context.in_thread(found.status))


@router.post("/{depot}/source/pause")
async def pause_source(context: ContextOf, module: Name, depot: Name) -> Response:
    """Let the append under way end and read no more; answers with the status then."""
    found = context.app(module).source(depot)
    await context.in_waiting_thread(found.pause)
    return answer(await context.in_thread(found.status))


@router.post("/{depot}/source/resume")
async def resume_source(context: ContextOf, module: Name, depot: Name) -> Response:
    """Go on, also at once after a failure; answers with the status."""
    found = context.app(module).source(depot)
    await context.in_waiting_thread(found.resume)
    return answer(await context.in_thread(found.status))


@router.post("/{depot}/records", openapi_extra=_BODY)
async def append_records(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    request: Request,
    module: Name,
    depot: Name,
    on_invalid: OnInvalid = "none",
    ack: Acknowledged = "stored",
    timeout_seconds: WaitSeconds = 60.0,
) -> Response:
    """Append records; answered when they are on disk.

    With ``ack=processed`` it is answered when readers see all that comes of them, or with an error
    whose context says under ``stored`` that they are on disk. The answer's ``token`` is for waiting
    and reading elsewhere.

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
    told = _appended(appended, context.settings.refusals_max)
    if ack == "processed":
        waiting = partial(_wait_for, context.app(module), appended, told, timeout_seconds)
        committed = await anyio.to_thread.run_sync(waiting, limiter=context.wait_limiter)
        return answer({**told, "committed": committed})
    return answer(told)


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
    append: Callable[[Iterable[Checked]], Receipt],
) -> Receipt:
    chunks = request.stream()
    body = BodyFile(
        chunks,
        chunk_timeout_seconds=context.settings.chunk_timeout_seconds,
        crowded=lambda: context.stream_limiter.statistics().tasks_waiting > 0,
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


def _wait_for(
    app: AppOrStopped, receipt: Receipt, told: dict[str, Any], timeout_seconds: float
) -> dict[str, int]:
    """Wait until it is processed; whoever waits in vain learns that it is stored all the same."""
    try:
        return dict(app.wait(receipt, timeout_seconds=timeout_seconds))
    except AtollError as error:
        error.hint = f"the records are stored, do not append them again; {error.hint or 'wait'}"
        error.context = {**error.context, "stored": told}
        raise


def _appended(appended: Receipt, refusals_max: int) -> dict[str, Any]:
    return {
        "appended": appended.count,
        "offsets": {str(part): list(span) for part, span in appended.offsets.items()},
        "duplicate": appended.duplicate,
        "token": appended.token,
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
