"""Runtimes: made of a definition, started, stopped, scaled, deleted, and asked what they did.

The addresses and shapes are Coral's where those are sane; the codes say what was wrong. A
reference is a name, ``<owner>-<name>`` or an id; with ``.<i>`` behind it, copy i.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from atoll.errors import ConflictError, NotFoundError, UsageError
from atoll.runtime.definition.read import check_definition, parse_definition, unrunnable
from atoll.runtime.definition.schema import definition_schema
from atoll.runtime.engine.intake import COPIES_MAX
from atoll.runtime.limits import parse_json
from atoll.runtime.service.following import FollowedRuntimes
from atoll.runtime.service.known import Known
from atoll.runtime.service.registry import Registered
from atoll.runtime.service.runtimes import Fate, Runtimes
from atoll.runtime.service.showing import runtime_shown, runtime_stats, time_text
from atoll.server.context import ContextOf, answer


def json_wanted(request: Request) -> None:
    """Refuse who accepts no JSON: all answers are."""
    accepted = request.headers.get("accept", "*/*")
    kinds = {each.partition(";")[0].strip().lower() for each in accepted.split(",")}
    if not kinds & {"*/*", "application/*", "application/json"}:
        raise HTTPException(406, "every answer is JSON, which the Accept header leaves out")


def _seen(context: ContextOf) -> Runtimes | FollowedRuntimes:
    """The runtimes that this service shows.

    Raises:
        NotFoundError: When it shows none.
    """
    if context.runtimes is None:
        raise NotFoundError(
            "this service has no runtimes", hint="start one that has: atoll run --root ROOT"
        )
    return context.runtimes


def _runtimes(context: ContextOf) -> Runtimes:
    """The runtimes that run in this process; else changes are passed on before they come here.

    Raises:
        NotFoundError: When none do.
    """
    found = _seen(context)
    assert isinstance(found, Runtimes), "changes are passed on"
    return found


SeenRuntimesOf = Annotated[Runtimes | FollowedRuntimes, Depends(_seen)]
"""Declares that a route wants to read runtimes."""

RuntimesOf = Annotated[Runtimes, Depends(_runtimes)]
"""Declares that a route wants to change runtimes."""

router = APIRouter(prefix="/api", tags=["runtimes"], dependencies=[Depends(json_wanted)])


class Copies(BaseModel):
    """How many copies."""

    model_config = ConfigDict(extra="forbid")

    copies: int = Field(ge=1, le=COPIES_MAX, strict=True)


class Patch(BaseModel):
    """What is to change of a runtime; one thing at a time."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["start", "stop"] | None = None
    distribution: Copies | None = None
    state: Fate | None = None


def found(runtimes: Known, reference: str) -> tuple[Registered, int | None]:
    """The runtime that a reference names, and the copy where it names one."""
    return runtimes.find(reference)


def whole(runtimes: Runtimes, reference: str) -> Registered:
    """The runtime that a reference names, for what cannot be done to one copy.

    Raises:
        ConflictError: When it names a copy.
    """
    runtime, copy = runtimes.find(reference)
    if copy is not None:
        raise ConflictError(
            f"{reference!r} is a copy, which changes with its runtime only",
            hint=f"ask it of {runtime.name!r}",
        )
    return runtime


@router.get("/runtimes")
async def list_runtimes(context: ContextOf, runtimes: SeenRuntimesOf) -> Response:
    """All runtimes that are not deleted."""

    def collect() -> list[dict[str, Any]]:
        return [
            runtime_shown(each, failure=runtimes.failure(each))
            for each in runtimes
            if context.sees(each.module)
        ]

    return answer(await context.in_thread(collect))


@router.post("/runtimes", status_code=201)
async def create_runtime(context: ContextOf, runtimes: RuntimesOf, request: Request) -> Response:
    """Make a runtime of a definition; it does not run yet. 400 names everything that is wrong."""
    body = await request.body()
    given = await context.in_thread(lambda: dict(parse_definition(body).given))
    made = await context.in_waiting_thread(runtimes.create, given)
    told = {
        "success": True,
        "created": time_text(made.created),
        "id": made.id,
        "name": made.name,
        "uniqueName": made.unique_name,
        "definition": made.definition,
    }
    response = answer(told, 201)
    response.headers["location"] = f"/api/runtimes/{quote(made.unique_name)}"
    return response


@router.delete("/runtimes")
async def delete_runtimes(context: ContextOf, runtimes: RuntimesOf) -> Response:
    """Delete all runtimes."""

    def delete() -> list[dict[str, bool]]:
        return [{runtimes.delete(each).unique_name: True} for each in list(runtimes)]

    results = await context.in_waiting_thread(delete)
    return answer(_did("Delete runtimes", results=results))


@router.get("/runtimes/{reference}")
async def get_runtime(context: ContextOf, runtimes: SeenRuntimesOf, reference: str) -> Response:
    """One runtime, or one of its copies."""

    def collect() -> dict[str, Any]:
        runtime, copy = found(runtimes, reference)
        return runtime_shown(runtime, copy, runtimes.failure(runtime))

    return answer(await context.in_thread(collect))


@router.patch("/runtimes/{reference}")
async def patch_runtime(
    context: ContextOf, runtimes: RuntimesOf, reference: str, wanted: Patch
) -> Response:
    """Start or stop a runtime, or change its copies while it runs.

    ``{"status": "start"}``, ``{"status": "stop"}``, or ``{"distribution": {"copies": n}}`` with
    ``"state": "keep"``, ``"drop"`` or ``"move"`` where copies with state go, or keys find others.
    """
    runtime = await context.in_thread(whole, runtimes, reference)
    if (wanted.status is None) == (wanted.distribution is None):
        raise UsageError(
            "a change is of the status or of the copies",
            hint='send {"status": "start"}, {"status": "stop"} or {"distribution": {"copies": 2}}',
        )
    if wanted.status is not None:
        if wanted.state is not None:
            raise UsageError("a start or stop changes no state", hint="leave 'state' out")
        change = runtimes.start if wanted.status == "start" else runtimes.stop
        changed = await context.in_waiting_thread(change, runtime)
        told = {"name": changed.name, "owner": changed.owner, "status": changed.status}
        return answer(_did(f"{wanted.status.capitalize()} runtime", **told))
    assert wanted.distribution is not None
    scale = partial(runtimes.scale, runtime, wanted.distribution.copies, wanted.state)
    changed = await context.in_waiting_thread(scale)
    return answer(_did("Scale runtime", name=changed.name, copies=changed.copies))


@router.delete("/runtimes/{reference}")
async def delete_runtime(context: ContextOf, runtimes: RuntimesOf, reference: str) -> Response:
    """Delete a runtime and all that it kept; its name is never given again."""
    runtime = await context.in_thread(whole, runtimes, reference)
    deleted = await context.in_waiting_thread(runtimes.delete, runtime)
    return answer(_did("Delete runtime", name=deleted.unique_name))


@router.get("/runtimes/{reference}/actors")
async def get_actors(context: ContextOf, runtimes: SeenRuntimesOf, reference: str) -> Response:
    """The actors of its definition."""
    runtime, _ = await context.in_thread(found, runtimes, reference)
    return answer({"actors": runtime.definition["actors"]})


@router.get("/runtimes/{reference}/links")
async def get_links(context: ContextOf, runtimes: SeenRuntimesOf, reference: str) -> Response:
    """The links of its definition."""
    runtime, _ = await context.in_thread(found, runtimes, reference)
    return answer({"links": runtime.definition["links"]})


@router.get("/runtimes/{reference}/stats")
async def get_stats(context: ContextOf, runtimes: SeenRuntimesOf, reference: str) -> Response:
    """What it has done: the sums over its copies, and each copy apart; of a copy its own."""

    def collect() -> dict[str, Any]:
        runtime, copy = found(runtimes, reference)
        told = runtime_stats(runtimes.seen(runtime), copy)
        effects = runtimes.effects(runtime) if copy is None else None
        return told if effects is None else {**told, "effects": effects}

    return answer(await context.in_thread(collect))


@router.get("/schema")
async def get_schema(context: ContextOf) -> Response:
    """The JSON Schema of a definition, for editors."""
    return answer(await context.in_thread(definition_schema))


@router.post("/validate")
async def validate(context: ContextOf, request: Request) -> Response:
    """Everything that is wrong with a definition, and whether it can be run; makes nothing."""
    body = await request.body()

    def check() -> dict[str, Any]:
        data, problems = parse_json(body)
        definition = None
        if not problems:
            definition, problems = check_definition(data)
        reasons = [] if definition is None else unrunnable(definition)
        return {
            "valid": definition is not None,
            "runs": definition is not None and not reasons,
            "problems": [msgspec.to_builtins(each) for each in (*problems, *reasons)],
        }

    return answer(await context.in_thread(check))


@router.get("/runtimes/{reference}/snapshots")
async def get_snapshots(context: ContextOf, runtimes: SeenRuntimesOf, reference: str) -> Response:
    """The batch state calculator: its seven steps for each actor with a batch mode."""

    def collect() -> dict[str, Any]:
        return runtimes.snapshots(found(runtimes, reference)[0])

    return answer(await context.in_thread(collect))


def _did(action: str, **more: Any) -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    return {"action": action, "success": True, "time": time_text(now_ms), **more}
