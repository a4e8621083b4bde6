"""For those who watch the service: is it alive, and what does it measure."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from atoll.server.context import ContextOf, answer

__all__ = ["router"]

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def health() -> Response:
    """Answers while the service is able to answer; asks no module, so it never waits."""
    return answer({"status": "ok"})


@router.get("/metrics")
async def metrics(context: ContextOf) -> Response:
    """Everything measured, for Prometheus."""
    text = await context.in_thread(context.metrics.text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
