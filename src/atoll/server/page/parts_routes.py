"""What the page shows of depots and options, and what happened to a module."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query, Response

from atoll.ddl import type_to_ddl
from atoll.depot.depot import Depot
from atoll.depot.partitioner import HashBy, Random
from atoll.depot.tail_start import read_start
from atoll.microbatch.control.options import Options, bounds_of, levels_of
from atoll.server.context import ContextOf, Name, Token, answer
from atoll.server.render import render

router = APIRouter(prefix="/v1/modules/{module}", tags=["page"])

_PEEKED_MAX = 500


@router.get("/story")
async def get_story(context: ContextOf, module: Name) -> Response:
    """What happened to it, newest first: lives, revisions, rollbacks, options, failed attempts."""
    return answer({"events": await context.in_thread(context.app(module).story)})


@router.get("/depots/{depot}/about")
async def get_about_depot(context: ContextOf, module: Name, depot: Name) -> Response:
    """A depot's fields, how its records are placed, how long they stay, and who appends."""
    found = context.app(module).depot(depot)
    return answer(await context.in_thread(_about, found))


@router.get("/depots/{depot}/peek")
async def peek(
    context: ContextOf,
    module: Name,
    depot: Name,
    start: Annotated[Token, Query(alias="from")] = "beginning",
    partition: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=1, le=_PEEKED_MAX)] = 50,
) -> Response:
    """A few records from somewhere on: each with its depot partition and offset."""
    found = context.app(module).depot(depot)

    def look() -> list[dict[str, Any]]:
        tail = found.tail(read_start(start), partition=partition, follow=False, batch_records=limit)
        with closing(tail):
            records = (
                {"partition": batch.partition, "offset": offset, "record": render(row)}
                for batch in iter(lambda: tail.next(0), None)
                for offset, row in enumerate(batch.rows(), batch.start)
            )
            return list(islice(records, limit))

    return answer({"records": await context.in_thread(look)})


@router.get("/options/known")
async def get_known_options(context: ContextOf, module: Name) -> Response:
    """Every option: its default, its bounds, and at which levels it can be set."""
    context.app(module)
    return answer(
        {
            name: {"default": value, "bounds": list(bounds_of(name)), "levels": levels_of(name)}
            for name, value in Options().by_name().items()
        }
    )


def _about(depot: Depot) -> dict[str, Any]:
    spec = depot.spec
    return {
        "name": spec.name,
        "fields": [_field(each) for each in spec.schema],
        "placed": _placed(spec.partitioner),
        "retention": {
            "records_max": spec.retention.records_max,
            "age_seconds_max": spec.retention.age_seconds_max,
        },
        "start_offsets": list(depot.start_offsets()),
        "end_offsets": list(depot.end_offsets()),
        "producers": [
            {
                "id": each.id,
                "epoch": each.epoch,
                "sequence": each.sequence,
                "at_ms": each.time_ms,
                "records": sum(end - start for _, start, end in each.offsets),
            }
            for each in depot.producers()
        ]
        if isinstance(depot, Depot)
        else None,
    }


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": type_to_ddl(field.type), "nullable": field.nullable}


def _placed(partitioner: object) -> str:
    match partitioner:
        case HashBy():
            return f"by {partitioner.field}"
        case Random():
            return "evenly"
    return "by a function"
