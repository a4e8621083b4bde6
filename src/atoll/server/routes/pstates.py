"""PStates: what they are, and selecting from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from atoll import path as paths
from atoll import schema
from atoll.codec.values.exchange import VALUES
from atoll.errors import PathError, UsageError
from atoll.path import Path
from atoll.pstate.navigate.budget import Budget, within
from atoll.pstate.navigate.fit_path import fit_path
from atoll.server.context import (
    WAIT_SECONDS_MAX,
    Context,
    ContextOf,
    Name,
    Token,
    answer,
    answer_values,
    wants_values,
)
from atoll.server.event_stream import EventStream, admit
from atoll.server.tags import at_one_commit, matches, read_path_text, tag_of
from atoll.server.wording.values import ValueFrames, ValuesTold
from atoll.views.readable import ReadablePState

_Result = TypeVar("_Result")

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
    stream: bool = False


_KEYS_MAX = 200
_PATH_CHARACTERS_MAX = 10_000
_TAGS_CHARACTERS_MAX = 1_000


class Keys(BaseModel):
    """The keys of one value, from the top."""

    model_config = ConfigDict(extra="forbid")

    keys: Annotated[list[Any], Field(max_length=_KEYS_MAX)]


class Fresh(BaseModel):
    """How long to wait until a PState shows all that there is now."""

    model_config = ConfigDict(extra="forbid")

    timeout_seconds: float = Field(default=60.0, gt=0, le=WAIT_SECONDS_MAX)


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


@router.post("/{pstate}/wait")
async def wait(context: ContextOf, module: Name, pstate: Name, wanted: Fresh) -> Response:
    """Answer when it shows all that the depots of its topology hold now: ``{"committed": id}``."""
    waiting = partial(
        context.app(module).wait_fresh, pstate, timeout_seconds=wanted.timeout_seconds
    )
    committed = await anyio.to_thread.run_sync(waiting, limiter=context.wait_limiter)
    return answer({"committed": committed})


@router.post("/{pstate}/get")
async def get_value(
    context: ContextOf,
    request: Request,
    module: Name,
    pstate: Name,
    wanted: Keys,
    as_of: AsOf = None,
) -> Response:
    """The value at some keys: ``{"found": true, "value": ...}``.

    Where there is no such entry, ``found`` is false, and ``value`` what is read then: null, or
    what the PState begins with.
    """
    found = context.app(module).pstate(pstate)
    return await _told(context, request, found, as_of, partial(_get, wanted.keys))


@router.get("/{pstate}/value")
async def get_selected(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    request: Request,
    module: Name,
    pstate: Name,
    path: Annotated[str, Query(max_length=_PATH_CHARACTERS_MAX)] = "[]",
    one: Annotated[bool, Query()] = True,  # noqa: FBT002 - a parameter of the request
    as_of: AsOf = None,
    if_none_match: Annotated[str | None, Header(max_length=_TAGS_CHARACTERS_MAX)] = None,
) -> Response:
    """The one value that a path (as JSON) leads to, or with ``one=false`` all: as ``select``.

    The ``ETag`` is the timeline and the microbatch of the commit that was read; with
    ``If-None-Match`` the answer is a 304 while that is the last one, and nothing is read.
    """
    found = context.app(module).pstate(pstate)
    wanted = Selection(path=read_path_text(path), one=one)
    if if_none_match is not None:
        shown = found if as_of is None else await context.in_thread(found.as_of, as_of)
        history = await context.in_thread(shown.history)
        tag = tag_of(history, values=wants_values(request))
        if matches(if_none_match, tag):
            return Response(status_code=304, headers={"etag": tag, "vary": "Accept"})
    return await _told(context, request, found, as_of, partial(_select, wanted))


@router.post("/{pstate}/select")
async def select(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    request: Request,
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
    ``after``, an append's token, until what came of that append is shown. With ``stream`` the
    values come one after the other, as their reading goes on.
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
    if wanted.stream:
        return await _streamed(context, request, found, wanted, as_of)
    return await _told(context, request, found, as_of, partial(_select, wanted))


async def _streamed(
    context: ContextOf, request: Request, found: ReadablePState, wanted: Selection, as_of: AsOf
) -> Response:
    if wanted.one or not wants_values(request):
        raise UsageError(
            "one value, or JSON, is not streamed",
            hint=f"leave stream out, or send Accept: {VALUES}",
        )
    admit(context)

    def opened() -> ValuesTold:
        read = found if as_of is None else found.as_of(as_of)
        return ValuesTold(read.iterate(_path_of(wanted)))

    told = await context.in_thread(opened)
    context.subscriptions.add(told)
    return EventStream(context, told, ValueFrames())


_ABSENT = object()


def budget_of(context: Context) -> Budget:
    """What one select may cost."""
    limits = context.settings
    return Budget(
        entries_max=limits.select_entries_max,
        bytes_max=limits.select_bytes_max,
        seconds_max=limits.select_seconds,
    )


def _within(budget: Budget, read: Callable[..., _Result], *arguments: Any) -> _Result:
    with within(budget):
        return read(*arguments)


async def _told(
    context: ContextOf,
    request: Request,
    pstate: ReadablePState,
    as_of: int | None,
    reading: Callable[[ReadablePState], dict[str, Any]],
) -> Response:
    """What is read, and of which commit."""
    if as_of is not None:
        pstate = await context.in_thread(pstate.as_of, as_of)
    reading_once = partial(_within, budget_of(context), at_one_commit, pstate, reading)
    told, commit = await context.in_thread(reading_once)
    response = answer_values(request, told)
    response.headers["etag"] = tag_of(commit, values=wants_values(request))
    response.headers["vary"] = "Accept"
    return response


def _get(keys: list[Any], pstate: ReadablePState) -> dict[str, Any]:
    fitted = fit_path(paths.from_json([["key", each] for each in keys]), pstate.spec.node)
    typed = [step.arguments[0] for step in fitted.steps]
    value = pstate.get(*typed, default=_ABSENT)
    found = value is not _ABSENT
    return {"found": found, "value": value if found else pstate.get(*typed)}


def _path_of(wanted: Selection) -> Path:
    try:
        return paths.from_json(wanted.path)
    except RecursionError:
        raise PathError("the path is nested too deeply", hint="write it flatter") from None


def _select(wanted: Selection, pstate: ReadablePState) -> dict[str, Any]:
    path = _path_of(wanted)
    if wanted.one:
        return {"value": pstate.select_one(path)}
    return {"values": pstate.select(path)}
