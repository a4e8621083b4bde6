"""For those who watch the service: is it alive, and what does it measure."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from atoll.server.context import ContextOf, answer
from atoll.server.problems import problem_for

__all__ = ["router"]

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def health(context: ContextOf) -> Response:
    """Whether the service is able to answer and its modules run; it never waits for one.

    A module that should run and does not makes it a 503 that says why.
    """
    failures = {name: app.failure for name, app in context.apps.items()}
    stopped = {name: problem_for(why) for name, why in failures.items() if why is not None}
    if stopped:
        return answer({"status": "stopped", "modules": stopped}, status=503)
    return answer({"status": "ok"})


@router.get("/metrics")
async def metrics(context: ContextOf) -> Response:
    """Everything measured, for Prometheus."""
    text = await context.in_thread(context.metrics.text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
