"""The actors of a runtime: events for them, their answers, and what they did.

``/api/runtimes/r/actors/a`` is actor ``a`` of all copies, ``/api/runtimes/r.2/actors/a`` that of
the second; Coral's short form ``/api/runtimes/r.2/a/stats`` means the same.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import anyio.to_thread
import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.exceptions import HTTPException

from atoll.errors import UsageError
from atoll.runtime.limits import check_size, parse_json
from atoll.runtime.service import sending
from atoll.runtime.service.showing import actor_shown, actor_stats
from atoll.server.context import WAIT_SECONDS_MAX, Context, ContextOf, answer
from atoll.server.guard import NDJSON, media_type
from atoll.server.routes.runtimes import RuntimesOf, SeenRuntimesOf, found, json_wanted

router = APIRouter(
    prefix="/api/runtimes/{reference}", tags=["runtimes"], dependencies=[Depends(json_wanted)]
)

_EVENTS_MAX = 100_000
_BODY_BYTES_MAX = 16 << 20


@router.get("/actors/{actor}")
async def get_actor(
    context: ContextOf, runtimes: SeenRuntimesOf, reference: str, actor: str
) -> Response:
    """An actor: its part of the definition, and what its type is."""

    def collect() -> dict[str, Any]:
        runtime, copy = found(runtimes, reference)
        return actor_shown(runtimes.seen(runtime), actor, copy)

    return answer(await context.in_thread(collect))


@router.get("/actors/{actor}/stats")
@router.get("/{actor}/stats")
async def get_actor_stats(  # each is a parameter of the route
    context: ContextOf,
    runtimes: SeenRuntimesOf,
    reference: str,
    actor: str,
    instance: Annotated[int | None, Query(ge=0)] = None,
    group: str | None = None,
) -> Response:
    """What an actor has done, and the state of each of its instances and groups."""

    def collect() -> dict[str, Any]:
        runtime, copy = found(runtimes, reference)
        return actor_stats(runtimes.seen(runtime), actor, copy, instance, group)

    return answer(await context.in_thread(collect))


@router.post("/actors/{actor}", status_code=202)
async def send(
    context: ContextOf, runtimes: RuntimesOf, request: Request, reference: str, actor: str
) -> Response:
    """Let an actor take an event, an array of them, or one a line (``application/x-ndjson``).

    Answered when they are on disk; each is processed exactly once.
    """
    body, many = await _body(request), media_type(request.headers) == NDJSON

    def take() -> dict[str, Any]:
        runtime, copy = found(runtimes, reference)
        sent = sending.send(runtimes, runtime, actor, events_of(body, lines=many), copy)
        return {"success": True, **msgspec.to_builtins(sent)}

    return answer(await _limited(context, take), 202)


@router.post("/actors/{actor}/shunt")
async def shunt(  # each is a parameter of the route
    context: ContextOf,
    runtimes: RuntimesOf,
    request: Request,
    reference: str,
    actor: str,
    timeout_seconds: Annotated[float, Query(gt=0, le=WAIT_SECONDS_MAX)] = 30.0,
) -> Response:
    """Let an actor take an event and answer what it gave, without emitting it.

    Answered when the microbatch has committed. 422 when the actor could not process it.
    """
    body = await request.body()

    def take() -> dict[str, Any]:
        runtime, copy = found(runtimes, reference)
        events = events_of(body)
        if len(events) != 1:
            raise UsageError("a shunt is of one event", hint="send one JSON object")
        return sending.shunt(runtimes, runtime, actor, events[0], copy, timeout_seconds)

    told = await anyio.to_thread.run_sync(take, limiter=context.wait_limiter)
    return answer({"action": "Shunt", **told})


def events_of(body: bytes, *, lines: bool = False) -> list[dict[str, Any]]:
    """The events of a body: one object, an array of objects, or one on each line.

    Raises:
        UsageError: With everything that is wrong with them.
    """
    texts = body.splitlines() if lines else [body]
    events: list[Any] = []
    wrong: list[dict[str, str]] = []
    for number, text in enumerate(texts, 1):
        if lines and not text.strip():
            continue
        data, problems = parse_json(text)
        problems = problems or list(check_size(data))
        many = isinstance(data, list) and not lines and not problems
        each = data if many else [data]
        misfits = [] if problems else [at for at, one in enumerate(each) if type(one) is not dict]
        where = {"line": str(number)} if lines else {}
        wrong += [{**where, "path": p.path, "what": p.what, "hint": p.hint} for p in problems]
        wrong += [
            {**where, "path": f"/{at}" if many else "", "what": "it is no object", "hint": _OBJECT}
            for at in misfits
        ]
        events += each
        if len(events) > _EVENTS_MAX:
            raise UsageError(
                f"a request holds more than {_EVENTS_MAX} events", hint="send smaller requests"
            )
    if wrong:
        raise UsageError(
            f"the events are refused: {wrong[0]['what']}", hint=_OBJECT, problems=wrong[:100]
        )
    return events


_OBJECT = "send a JSON object, an array of objects, or one object a line as application/x-ndjson"


async def _body(request: Request) -> bytes:
    """A body that may be of many lines, up to a size.

    Raises:
        HTTPException: 413 when it is larger.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > _BODY_BYTES_MAX:
            raise HTTPException(413, f"the body is larger than {_BODY_BYTES_MAX} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def _limited(context: Context, take: Any) -> dict[str, Any]:
    """Call what appends, off the event loop, no more of them at once than bodies are read."""
    told: dict[str, Any] = await anyio.to_thread.run_sync(
        partial(take), limiter=context.stream_limiter
    )
    return told
