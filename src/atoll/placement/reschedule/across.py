"""Plans over all modules of a root: one request, one answer, one next revision. Pure.

What one module gets is decided as if it were alone, on the cluster as its own process sees it; so
every check of :func:`~atoll.placement.reschedule.plan.plan` holds for each of them, module by
module in the order of their names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from atoll.errors import NotFoundError
from atoll.placement.deploying import policy_plan
from atoll.placement.policies.shortage import shortage
from atoll.placement.registry import Registry, full_name, module_of, view, whole, with_view
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.checks import check
from atoll.placement.reschedule.plan import ReschedulePlan, plan


class Across(msgspec.Struct, frozen=True):
    """What is planned.

    Attributes:
        plan: For a person; its info is the whole cluster afterwards.
        before: The registry that it was made from.
        after: The registry afterwards; the same as before when there is nothing to do.
        modules: Those whose fragments or policies change.
    """

    plan: ReschedulePlan
    before: Registry
    after: Registry
    modules: tuple[str, ...] = ()


def plan_across(
    registry: Registry,
    request: Request,
    sizes: Mapping[int, Sequence[int]] = {},
    *,
    unavailable: str | None = None,
    starting: Collection[str] = (),
) -> Across:
    """What a request does that may name fragments of any module.

    Args:
        registry: As it is.
        request: What is asked for.
        sizes: For a root fragment the bytes of each of its vnodes.
        unavailable: Why the cluster takes no reschedule now; None when it does.
        starting: The full names of the topologies that do not run yet.

    Raises:
        RescheduleError: The first check that finds something.
        UsageError: When the sizes of a fragment are not those of its vnodes.
    """
    by_module: dict[str, dict[int, UnitChange]] = {}
    unknown: dict[int, UnitChange] = {}
    for fragment, change in request.changes.items():
        module = module_of(registry, fragment)
        (unknown if module is None else by_module.setdefault(module, {}))[fragment] = change
    # The cluster as such, and fragments that no module has.
    known = Request(unknown, request.revision, request.resolve)
    check(whole(registry), known, unavailable=unavailable)
    plans = {}
    for module, changes in sorted(by_module.items()):
        prefix = full_name(module, "")
        plans[module] = plan(
            view(registry, module),
            msgspec.structs.replace(request, changes=changes),
            sizes,
            starting=[each.removeprefix(prefix) for each in starting if each.startswith(prefix)],
        )
    return _together(registry, {name: each for name, each in plans.items() if not each.is_noop})


def policy_across(
    registry: Registry,
    module: str,
    topology: str,
    policy: str,
    sizes: Mapping[int, Sequence[int]] = {},
) -> Across:
    """What it does that a topology of some module gets a policy.

    Raises:
        NotFoundError: When there is no such topology.
    """
    info = view(registry, module)
    if topology not in info.policies:
        known = ", ".join(sorted(whole(registry).policies)) or "none"
        raise NotFoundError(
            f"there is no topology {full_name(module, topology)!r}", hint=f"there are: {known}"
        )
    wanted = msgspec.structs.replace(info, policies={**info.policies, topology: policy})
    planned = policy_plan(wanted, sizes)
    lacking = shortage(planned.info, topology)
    if planned.info == info:
        now = msgspec.structs.replace(planned, info=whole(registry), shortage=lacking)
        return Across(now, registry, registry)
    found = _together(registry, {module: planned})
    told = msgspec.structs.replace(found.plan, shortage=lacking)
    return msgspec.structs.replace(found, plan=told)


def _together(registry: Registry, plans: Mapping[str, ReschedulePlan]) -> Across:
    after = registry
    for module, each in plans.items():
        after = with_view(after, module, each.info)
    if after is not registry:
        after = msgspec.structs.replace(after, revision=registry.revision + 1)
    sizes = [each.bytes_moved for each in plans.values()]
    return Across(
        ReschedulePlan(
            changes={root: each for p in plans.values() for root, each in p.changes.items()},
            owners={root: each for p in plans.values() for root, each in p.owners.items()},
            moves={root: each for p in plans.values() for root, each in p.moves.items()},
            vnodes={root: each for p in plans.values() for root, each in p.vnodes.items()},
            bytes_moved=None if None in sizes else sum(each for each in sizes if each),
            info=whole(after),
        ),
        registry,
        after,
        tuple(plans),
    )
