"""The application: routers behind the guard, and one shape for all errors."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from fastapi import FastAPI

import atoll
from atoll.access.audit import AuditLog
from atoll.access.authority import Authority
from atoll.cluster.deploy.redeployer import Redeployer
from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.cluster.scaling.over_modules import RootCluster
from atoll.errors import UsageError
from atoll.runtime.service.following import FollowedRuntimes
from atoll.runtime.service.runtimes import Runtimes
from atoll.server.access import audit, session
from atoll.server.access.audit import Auditing
from atoll.server.access.gate import Gate
from atoll.server.access.proxies import Proxies
from atoll.server.context import Context, Served
from atoll.server.conventions.described import describing
from atoll.server.conventions.heads import Heads
from atoll.server.doors.modules import DoorModules
from atoll.server.doors.passing_on import PassingOn
from atoll.server.forwarding import Forwarding
from atoll.server.guard import Guard
from atoll.server.metrics import Metrics, RequestMetrics
from atoll.server.page import assets
from atoll.server.page import parts_routes as page_parts
from atoll.server.page import routes as page_routes
from atoll.server.page.live import Looking
from atoll.server.problems import install_problems
from atoll.server.routes import (
    deploy,
    depots,
    exports,
    modules,
    operations,
    options,
    progress,
    pstates,
    queries,
    runtime_actors,
    subscriptions,
    tails,
    topologies,
)
from atoll.server.routes import (
    runtimes as runtime_routes,
)
from atoll.server.routes.scaling import module as cluster_routes
from atoll.server.routes.scaling import root as root_cluster
from atoll.server.runtime_metrics import RuntimeCollector
from atoll.server.settings import ServerSettings
from atoll.storage.places import Place

__all__ = ["create_app"]

_QUERIES_MAX = 32
"""So many queries are waited for at once; the rest wait for them."""
_WAITERS_MAX = 64
"""So many requests wait until records are processed; the rest wait for them."""
_CHANGES_MAX = 8
"""So many requests wait for a microbatch at once; the rest wait for them."""


def create_app(  # noqa: PLR0913 - each is a part of the service
    *apps: AppOrStopped,
    settings: ServerSettings | None = None,
    deployers: Mapping[str, Redeployer] | None = None,
    runtimes: Runtimes | FollowedRuntimes | None = None,
    cluster: RootCluster | None = None,
    authority: Authority | None = None,
    door: DoorModules | None = None,
    audit_root: Place | None = None,
) -> FastAPI:
    """The service over the given deployed modules.

    It owns none of them: closing is for whoever deployed them, after the service has stopped.

    Args:
        *apps: The modules.
        settings: How to serve them.
        deployers: For each module that clients may have deployed again what does it.
        runtimes: The runtimes to serve; changes of those that are followed are passed on.
        cluster: That of the root, over all its modules: ``whole`` of what deployed them.
        authority: Who says who calls; nobody is asked without.
        door: All modules of a root, for a service that runs none of them: it reads them, and passes
            on what it cannot answer.
        audit_root: The root that keeps the log of changes; none is kept without.

    Raises:
        UsageError: When two modules have one name.
    """
    named = {app.name: app for app in apps}
    by_name = door if door is not None else Served(named, deployers or {}, runtimes)
    if len(named) < len(apps):
        raise UsageError("two modules have one name", hint="serve them from two processes")
    chosen = settings or ServerSettings()
    # what runs elsewhere is measured there
    metrics = Metrics(by_name if door is None else {})
    if runtimes is not None:
        metrics.add(RuntimeCollector(runtimes))
    application = FastAPI(
        title="Atoll",
        version=atoll.__version__,
        summary="Append to depots, select from PStates, watch topologies.",
        docs_url=None,  # the pages load scripts from other sites; /openapi.json is enough
        redoc_url=None,
        redirect_slashes=False,  # one address per thing; a redirect would drop bodies
    )
    context = Context(
        by_name,
        chosen,
        metrics,
        stream_limiter=anyio.CapacityLimiter(chosen.stream_count_max),
        change_limiter=anyio.CapacityLimiter(_CHANGES_MAX),
        wait_limiter=anyio.CapacityLimiter(_WAITERS_MAX),
        query_limiter=anyio.CapacityLimiter(_QUERIES_MAX),
        subscriber_limiter=anyio.CapacityLimiter(chosen.subscriber_count_max),
        deployers=dict(deployers or {}),
        runtimes=runtimes,
        cluster=cluster,
    )
    application.state.looking = Looking(by_name)
    application.state.context = context
    application.state.authority = authority
    application.state.audit_root = audit_root
    install_problems(application)
    application.state.routes = []
    for part in (
        modules,
        deploy,
        depots,
        pstates,
        exports,
        subscriptions,
        tails,
        queries,
        topologies,
        progress,
        options,
        cluster_routes,
        root_cluster,
        operations,
        session,
        audit,
        runtime_routes,
        runtime_actors,
        # the page looks at what runs here
        *(() if door is not None else (page_routes, page_parts, assets)),
    ):
        application.include_router(part.router)
        application.state.routes += part.router.routes
    application.openapi = describing(application)  # type: ignore[method-assign]  # as FastAPI says
    application.add_middleware(Heads)
    if isinstance(runtimes, FollowedRuntimes):
        application.add_middleware(Forwarding, owner=runtimes.owner)
    if door is not None:
        application.add_middleware(PassingOn, modules=door)
    application.add_middleware(RequestMetrics, metrics=metrics)
    application.add_middleware(Gate, authority=authority, context=context)
    if audit_root is not None:
        application.add_middleware(Auditing, log=AuditLog.of(audit_root))
    application.add_middleware(Guard, settings=chosen)
    if chosen.proxies:  # added last, so it sees requests first
        application.add_middleware(Proxies, networks=chosen.proxies)
    return application
