"""Exports: a PState as of a microbatch, or what commits changed of it, as Arrow or Parquet."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from atoll.errors import UsageError
from atoll.server.context import ContextOf, Name
from atoll.server.conventions.strict import Flag
from atoll.server.event_stream import EventStream, Wording, admit
from atoll.server.guard import ARROW_STREAM
from atoll.server.wording.exports import PARQUET, ExportArrow, ExportParquet, ExportTold
from atoll.views.export.export import Export
from atoll.views.export.files import ExportFormat
from atoll.views.readable import ReadablePState

router = APIRouter(prefix="/v1/modules/{module}/pstates", tags=["pstates"])

_FIELD_CHARACTERS_MAX = 1_000
Microbatch = Annotated[int | None, Query(ge=0)]


@router.get(
    "/{pstate}/export",
    response_class=Response,
    responses={200: {"content": {ARROW_STREAM: {}, PARQUET: {}}}},
)
async def export_pstate(  # noqa: PLR0913 - each is a parameter of the request
    context: ContextOf,
    module: Name,
    pstate: Name,
    form: Annotated[ExportFormat, Query(alias="format")] = ExportFormat.ARROW,
    field: Annotated[str | None, Query(max_length=_FIELD_CHARACTERS_MAX)] = None,
    as_of: Microbatch = None,
    changes: Flag = False,  # noqa: FBT002 - a parameter of the request
    after: Microbatch = None,
    up_to: Microbatch = None,
) -> Response:
    """A whole PState as of one commit, its keys and values in columns of their own.

    With ``changes`` it is what the commits wrote that are after the one, up to the other. As an
    Arrow stream or a Parquet file, read and sent batch by batch.
    """
    found = context.app(module).pstate(pstate)
    admit(context)
    if changes:
        if as_of is not None:
            raise UsageError("changes have no as_of", hint="say after and up_to")
        making = partial(found.export_changes, after, up_to, field=field)
    else:
        if after is not None or up_to is not None:
            raise UsageError("after and up_to are of changes", hint="add changes=true")
        making = partial(_state, found, as_of, field)
    export = await context.in_thread(making)
    told = ExportTold(export)
    context.subscriptions.add(told)
    wording: Wording = ExportArrow(export.schema)
    if form is ExportFormat.PARQUET:
        wording = ExportParquet(export.schema)
    return EventStream(context, told, wording)


def _state(pstate: ReadablePState, as_of: int | None, field: str | None) -> Export:
    return (pstate if as_of is None else pstate.as_of(as_of)).export(field=field)
