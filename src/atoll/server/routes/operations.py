"""For those who watch the service: is it alive, and what does it measure."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from atoll.errors import DamageError
from atoll.server.context import Context, ContextOf, answer

__all__ = ["router"]

_STOPPED = ("failed", "fenced")

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def health() -> Response:
    """Answers while the service is able to answer; asks no module, so it never waits."""
    return answer({"status": "ok"})


@router.get("/readyz")
async def readiness(context: ContextOf) -> Response:
    """Whether all topologies go on and nothing is lost: 200, or 503 with the reasons."""
    reasons = await context.in_thread(_reasons, context)
    return answer({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)


def _reasons(context: Context) -> list[dict[str, Any]]:
    """What keeps the modules from being ready: what has stopped, and what is damaged."""
    found = []
    for name, app in context.apps.items():
        for topology in app.topologies():
            status = app.topology(topology).status()
            stopped = [status["error"]] if status["state"] in _STOPPED else []
            damaged = [
                each for each in status.get("warnings", ()) if each["code"] == DamageError.code
            ]
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
