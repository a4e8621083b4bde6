"""Options: what stands, and setting them while the module runs."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Response
from pydantic import StrictInt

from atoll.server.context import ContextOf, Name, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute

router = APIRouter(route_class=StrictRoute, prefix="/v1/modules/{module}/options", tags=["options"])


class OptionChange(StrictModel):
    """An option, where it is set, and its value; null takes it back."""

    option: str
    value: StrictInt | None
    topology: str | None = None
    depot: str | None = None
    pstate: str | None = None


@router.get("")
async def get_options(context: ContextOf, module: Name) -> Response:
    """What is set by level, what is declared, and what stands for each topology."""
    return answer(await context.in_thread(context.app(module).options.describe))


@router.post("")
async def set_option(context: ContextOf, module: Name, wanted: OptionChange) -> Response:
    """Set an option from the next microbatch on; answers with what stands then."""
    options = context.app(module).options
    where = {"topology": wanted.topology, "depot": wanted.depot, "pstate": wanted.pstate}
    change = (
        partial(options.unset, wanted.option, **where)
        if wanted.value is None
        else partial(options.set, wanted.option, wanted.value, **where)
    )
    await context.in_thread(change)
    return answer(await context.in_thread(options.describe))
