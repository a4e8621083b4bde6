"""For those who watch the service: is it alive, and what does it measure."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from atoll.errors import DamageError
from atoll.microbatch.control.warnings import STEP_HANGS
from atoll.runtime.service.registry import Registered
from atoll.server.context import Context, ContextOf, answer
from atoll.server.problems import problem_for

_NOT_READY = (DamageError.code, STEP_HANGS)
"""Warnings with which a topology is not ready."""

_STOPPED = ("failed", "fenced")

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def health(context: ContextOf) -> Response:
    """Whether the service is able to answer and its modules run; it never waits for one.

    A module that should run and does not makes it a 503 that says why, to who may know.
    """
    failures = {name: app.failure for name, app in context.apps.items()}
    for each in _runtimes(context):
        failures[each.module] = failures.get(each.module) or context.failure_of(each)
    stopped = {name: problem_for(why) for name, why in failures.items() if why is not None}
    if stopped:
        told = {} if context.caller is None else {"modules": stopped}
        return answer({"status": "stopped", **told}, status=503)
    return answer({"status": "ok"})


@router.get("/readyz")
async def readiness(context: ContextOf) -> Response:
    """Whether all topologies go on and nothing is lost: 200, or 503 with the reasons.

    A token for some modules hears of those; who shows none hears of all, without the reasons.
    """
    reasons = await context.in_thread(_reasons, context)
    status = 503 if reasons else 200
    if context.caller is None:
        return answer({"ready": not reasons}, status=status)
    return answer({"ready": not reasons, "reasons": reasons}, status=status)


def _runtimes(context: Context) -> list[Registered]:
    """Those that count for who asks: all, for somebody unknown."""
    present = context.runtimes or ()
    return [each for each in present if context.caller is None or context.sees(each.module)]


def _reasons(context: Context) -> list[dict[str, Any]]:
    """What keeps the modules from being ready: what has stopped, and what is damaged."""
    found: list[dict[str, Any]] = []
    for each in _runtimes(context):
        failure = context.failure_of(each)
        if failure is not None:
            found.append({"module": each.module, **problem_for(failure)})
    for name, app in context.apps.items():
        if app.failure is not None:
            found.append({"module": name, **problem_for(app.failure)})
            continue
        for topology in app.topologies():
            status = app.topology(topology).status()
            stopped = [status["error"]] if status["state"] in _STOPPED else []
            damaged = [each for each in status.get("warnings", ()) if each["code"] in _NOT_READY]
            found += [
                {"module": name, "topology": topology, **each}
                for each in (*stopped, *damaged)
                if each
            ]
    return found


@router.get("/metrics")
async def metrics(context: ContextOf) -> Response:
    """Everything measured, for Prometheus."""
    text = await context.in_thread(context.metrics.text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
