"""The routes that the page needs beside those for everybody."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from atoll import path as paths
from atoll.errors import PathError
from atoll.pstate.navigate.budget import Budget, within
from atoll.pstate.walking import Entry, Walk, Walked
from atoll.server.context import ContextOf, Name, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute
from atoll.server.event_stream import EVENT_STREAM, EventStream, admit
from atoll.server.page.live import Live, ModuleEvents
from atoll.server.render import render_json
from atoll.views.readable import ReadablePState

router = APIRouter(route_class=StrictRoute, prefix="/v1", tags=["page"])


@router.get("/live", response_class=Response, responses={200: {"content": {EVENT_STREAM: {}}}})
async def follow_modules(context: ContextOf, request: Request) -> Response:
    """How the modules that one may see are in short, as events: now, and whenever it changes."""
    admit(context)
    looking = request.app.state.looking

    def look() -> dict[str, Any]:
        seen = looking.look()
        modules = {name: each for name, each in seen["modules"].items() if context.sees(name)}
        return {**seen, "modules": modules}

    live = Live(look)
    context.subscriptions.add(live)
    return EventStream(context, live, ModuleEvents())


_ENTRIES_MAX = 1000
_TEXT_CHARACTERS_MAX = 2000
_WHOLE_CHARACTERS_MAX = 100_000


class Walking(StrictModel):
    """A place of a PState, and which page of it."""

    path: list[Any] = Field(default_factory=list)
    start: Annotated[list[Any] | None, Field(min_length=1, max_length=1)] = None
    beyond: bool = False
    backwards: bool = False
    limit: Annotated[int, Field(ge=1, le=_ENTRIES_MAX)] = 50

    def wanted(self) -> Walk:
        """The same, as it is read."""
        try:
            path = paths.from_json(self.path)
        except RecursionError:
            raise PathError("the path is nested too deeply", hint="write it flatter") from None
        return Walk(path, self.start, self.beyond, self.limit, self.backwards)


@router.post("/modules/{module}/pstates/{pstate}/walk")
async def walk_pstate(
    context: ContextOf,
    module: Name,
    pstate: Name,
    wanted: Walking,
    as_of: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """A page of what one place holds; nothing below its entries is read.

    Keys and values are texts of JSON, so that none loses digits on its way through a browser.
    """
    found: ReadablePState = context.app(module).pstate(pstate)

    def look() -> dict[str, Any]:
        reader = found if as_of is None else found.as_of(as_of)
        with within(Budget(seconds_max=context.settings.select_seconds)):
            walked, commit = reader.walk(wanted.wanted())
        return {"as_of": commit, **_walked(walked)}

    return answer(await context.in_thread(look))


@router.get("/modules/{module}/pstates/{pstate}/vnodes")
async def get_vnodes(context: ContextOf, module: Name, pstate: Name) -> Response:
    """For each vnode its ``bytes`` on disk and the ``units`` that own them."""
    app = context.app(module)
    app.pstate(pstate)
    return answer(await context.in_thread(app.vnodes, pstate))


def _walked(walked: Walked) -> dict[str, Any]:
    holds = walked.kind == "value"
    return {
        "kind": walked.kind,
        "node": walked.node,
        "python": str(walked.path),
        "steps": [_text([each.name, *each.arguments], None) for each in walked.path.steps],
        "count": walked.count,
        "more": walked.more,
        "entries": [_entry(each) for each in walked.entries],
        "value": _text(walked.value, _WHOLE_CHARACTERS_MAX) if holds else None,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "label": entry.label if isinstance(entry.label, str) else _text(entry.label),
        "key": _text(entry.label, None),
        "step": None if entry.step is None else _text(entry.step, None),
        "node": entry.node,
        "value": _text(entry.value) if entry.stored else None,
    }


def _text(value: Any, longest: int | None = _TEXT_CHARACTERS_MAX) -> str:
    text = render_json(value).decode("utf-8", "replace")
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text):,} characters)"
