"""The cluster of a module: how it is, and changing where its fragments run while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field, StringConstraints

from atoll.cluster.description import described_plan
from atoll.errors import UsageError
from atoll.placement.limits import UNITS_MAX
from atoll.placement.reschedule.change import UnitChange
from atoll.placement.reschedule.plan import ReschedulePlan
from atoll.placement.reschedule.text import parse_plan
from atoll.server.context import WAIT_SECONDS_MAX, Context, ContextOf, Name, answer
from atoll.server.conventions.strict import StrictModel, StrictRoute

router = APIRouter(route_class=StrictRoute, prefix="/v1/modules/{module}", tags=["cluster"])

_ID_DIGITS_MAX = 18
_LIST_LENGTH_MAX = 10_000
_PLAN_LENGTH_MAX = 100_000
_POLICY_LENGTH_MAX = 100
_NAME_LENGTH_MAX = 63

_Id = Annotated[int, Field(ge=0, lt=10**_ID_DIGITS_MAX)]
_Units = Annotated[list[_Id], Field(max_length=_LIST_LENGTH_MAX)]
# One text per id, so that no fragment can be named twice.
_IdText = Annotated[str, StringConstraints(pattern=rf"^(0|[1-9][0-9]{{0,{_ID_DIGITS_MAX - 1}}})$")]


_Seconds = Annotated[float, Field(gt=0, le=WAIT_SECONDS_MAX)]
"""How long to wait for the first microbatch on the new mapping."""


class _Body(StrictModel):
    """Nothing is turned into another type, and nothing unknown is passed over."""


class FragmentChange(_Body):
    """The units that get an actor of a fragment, and those that lose theirs."""

    added: _Units = Field(default_factory=list)
    removed: _Units = Field(default_factory=list)


class Reschedule(_Body):
    """The changes, by fragment or as one line of text, and the revision that they were made from.

    With ``resolve``, a change of a fragment that follows another is meant for its root.
    """

    changes: Annotated[dict[_IdText, FragmentChange] | None, Field(max_length=_LIST_LENGTH_MAX)] = (
        None
    )
    plan: Annotated[str | None, Field(max_length=_PLAN_LENGTH_MAX)] = None
    revision: Annotated[int, Field(ge=0)]
    resolve: bool = False
    dry_run: bool = False
    timeout_seconds: _Seconds = 60.0

    def asked(self) -> dict[int, UnitChange]:
        """The changes, whichever way they were given.

        Raises:
            UsageError: When they were given in both ways or in none, or the text cannot be read.
        """
        if self.plan is not None and self.changes is None:
            return parse_plan(self.plan)
        if self.changes is None or self.plan is not None:
            raise UsageError(
                "a reschedule takes either changes or a plan",
                hint='send "changes": {"12": {"added": [5], "removed": [0]}}, '
                'or the same as "plan": "12-[0]+[5]"',
            )
        return {
            int(fragment): UnitChange(added=tuple(each.added), removed=tuple(each.removed))
            for fragment, each in self.changes.items()
        }


class Parallelism(_Body):
    """The policy that decides how many units a topology gets."""

    policy: Annotated[str, Field(max_length=_POLICY_LENGTH_MAX)]
    dry_run: bool = False
    timeout_seconds: _Seconds = 60.0


class ParallelismOf(Parallelism):
    """The same, of a topology of some module."""

    module: Annotated[str, Field(max_length=_NAME_LENGTH_MAX)]
    topology: Annotated[str, Field(max_length=_NAME_LENGTH_MAX)]


class Workers(_Body):
    """Workers by their ids."""

    workers: Annotated[list[_Id], Field(min_length=1, max_length=_LIST_LENGTH_MAX)]


class Units(_Body):
    """How many parallel units a process has that runs modules without a cluster."""

    units: Annotated[int, Field(ge=1, le=UNITS_MAX)]


async def rescheduled(
    context: Context, reschedule: Callable[..., ReschedulePlan], wanted: Reschedule
) -> Response:
    """What a reschedule moved, of a module or of all."""
    asked = partial(
        reschedule,
        wanted.asked(),
        revision=wanted.revision,
        resolve=wanted.resolve,
        dry_run=wanted.dry_run,
        timeout_seconds=wanted.timeout_seconds,
    )
    return answer(described_plan(await context.in_waiting_thread(asked), dry_run=wanted.dry_run))


@router.get("/cluster")
async def get_cluster(context: ContextOf, module: Name) -> Response:
    """Revision, policies, workers, fragments with their actors, and the fragment-by-unit matrix."""
    return answer(await context.in_thread(context.app(module).cluster.describe))


@router.post("/cluster/reschedule")
async def reschedule(context: ContextOf, module: Name, wanted: Reschedule) -> Response:
    """Change which units run some fragments, all or nothing; answers with what moved."""
    return await rescheduled(context, context.app(module).cluster.reschedule, wanted)


@router.post("/topologies/{topology}/parallelism")
async def set_parallelism(
    context: ContextOf, module: Name, topology: Name, wanted: Parallelism
) -> Response:
    """Let a policy decide the topology's parallelism; answers with what moved."""
    cluster = context.app(module).cluster
    plan = await context.in_waiting_thread(
        partial(
            cluster.set_parallelism,
            topology,
            wanted.policy,
            dry_run=wanted.dry_run,
            timeout_seconds=wanted.timeout_seconds,
        )
    )
    return answer(described_plan(plan, dry_run=wanted.dry_run))


@router.post("/cluster/cordon")
async def cordon(context: ContextOf, module: Name, wanted: Workers) -> Response:
    """Give workers no new actors; answers with the cluster."""
    return await _changed(context, module, context.app(module).cluster.cordon, wanted)


@router.post("/cluster/uncordon")
async def uncordon(context: ContextOf, module: Name, wanted: Workers) -> Response:
    """Let workers get new actors again; answers with the cluster."""
    return await _changed(context, module, context.app(module).cluster.uncordon, wanted)


@router.post("/cluster/remove")
async def remove(context: ContextOf, module: Name, wanted: Workers) -> Response:
    """Forget workers that run nothing; answers with the cluster."""
    return await _changed(context, module, context.app(module).cluster.remove, wanted)


async def _changed(
    context: Context, module: str, change: Callable[[Iterable[int]], Any], wanted: Workers
) -> Response:
    await context.in_waiting_thread(change, wanted.workers)
    return answer(await context.in_thread(context.app(module).cluster.describe))
