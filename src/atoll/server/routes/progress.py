"""Waiting for a topology."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Response
from pydantic import Field

from atoll.cluster.topologies import RunningTopology
from atoll.errors import UsageError
from atoll.server.context import WAIT_SECONDS_MAX, ContextOf, Name, Token, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute

router = APIRouter(
    route_class=StrictRoute, prefix="/v1/modules/{module}/topologies", tags=["topologies"]
)


class TopologyWait(StrictModel):
    """What to wait for: appends by their tokens, a count of records, or what is being filled."""

    tokens: Annotated[list[Token], Field(min_length=1, max_length=64)] | None = None
    processed: Annotated[int, Field(ge=0)] | None = None
    filled: bool = False
    timeout_seconds: float = Field(default=60.0, gt=0, le=WAIT_SECONDS_MAX)

    def run(self, topology: RunningTopology) -> int:
        """Wait for it; the microbatch that readers see then.

        Raises:
            UsageError: When not exactly one of them is asked for.
        """
        if (self.tokens is not None) + (self.processed is not None) + self.filled != 1:
            raise UsageError(
                "a topology is waited for by tokens, by a count or until it is filled",
                hint='send {"tokens": ["r..."]}, {"processed": 3} or {"filled": true}',
            )
        if self.tokens is not None:
            return topology.wait(*self.tokens, timeout_seconds=self.timeout_seconds)
        if self.processed is not None:
            topology.wait_processed(self.processed, self.timeout_seconds)
        else:
            topology.wait_filled(self.timeout_seconds)
        return topology.published.id


@router.post("/{topology}/wait")
async def wait(context: ContextOf, module: Name, topology: Name, wanted: TopologyWait) -> Response:
    """Answer when readers see what the topology makes of it: ``{"committed": microbatch}``."""
    found = context.app(module).topology(topology)
    committed = await anyio.to_thread.run_sync(
        partial(wanted.run, found), limiter=context.wait_limiter
    )
    return answer({"committed": committed})
