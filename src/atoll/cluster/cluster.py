"""Runs modules: deploys them, keeps them running, and tells them who is in the cluster.

What kinds of clusters there are differs in two things only: the engine that runs the attempts,
and how it is known which workers there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from atoll.cluster.adopting import deployed_hidden
from atoll.cluster.app import App
from atoll.cluster.catalog import BoundTopology, bind_topologies
from atoll.cluster.changes import DeployPlan, plan_changes
from atoll.cluster.depot_migrations import (
    Migrations,
    depot_migrations,
    known_ids,
    try_depot_migrations,
    with_depot_migrations,
)
from atoll.cluster.depots import depot_spec, described_partitioner
from atoll.cluster.drive import Drive
from atoll.cluster.hidden_state import Known
from atoll.cluster.migrations import migrated, try_migrations
from atoll.cluster.mirrors import Mirrors, broken_mirrors, resolve_mirrors
from atoll.cluster.partitioners import check_key_partitioners
from atoll.cluster.removing import delete_removed
from atoll.cluster.revisions import Revision, Revisions
from atoll.dataflow.meanings import meanings_of
from atoll.dataflow.queries import mirrors_read
from atoll.dataflow.scheduling import fragment_specs
from atoll.ddl import to_ddl
from atoll.depot.depot import Depot
from atoll.depot.start import StartFrom, end
from atoll.errors import NotFoundError
from atoll.microbatch.epochs import Epoch, claim_epoch
from atoll.microbatch.mirrored import drop_stale_pins
from atoll.microbatch.tuning import SettingsLog
from atoll.placement.deploying import WorkerReport, deployed
from atoll.placement.info import ClusterInfo
from atoll.storage.local import LocalStore
from atoll.tasks.queries.bind import bind_queries
from atoll.tasks.reading import depot_folder
from atoll.views.deployment import (
    Deployment,
    DepotDeployment,
    TopologyDeployment,
    latest_deployment,
    save_deployment,
)
from atoll.views.mirrored import MirroredPStates

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from atoll.cluster.engines import Engine
    from atoll.depot.mirror import MirrorDepot
    from atoll.microbatch.stepping import Observer
    from atoll.module import Module
    from atoll.pstate.spec import PStateSpec
    from atoll.storage.places import Places

__all__ = ["Cluster"]


class Cluster(ABC):
    """What all clusters do alike.

    Args:
        places: Where everything lies.
        engine: What runs the attempts.
        observer: Called after each numbered step of every microbatch, for tests and tools.
        drive: What moves the topologies; threads when None.
    """

    def __init__(
        self,
        places: Places,
        engine: Engine,
        observer: Observer | None,
        drive: Drive | None = None,
    ) -> None:
        """Nothing runs yet."""
        self.places = places
        self.root = places.root
        self.apps: dict[str, App] = {}
        self._engine = engine
        self._observer = observer
        self._drive = drive or Drive()

    @abstractmethod
    def present(self) -> list[WorkerReport]:
        """The workers that there are now."""

    def plan(self, module: Module, *, remove: Collection[str] = ()) -> DeployPlan:
        """What deploying a module would change, without changing anything.

        Args:
            module: The new version.
            remove: What may go, as for :meth:`deploy`.

        Raises:
            DeclarationError: When the module has a mistake.
            DeployError: When a migration cannot be taken over.
            UsageError: When something to remove is not deployed, or still declared.
        """
        return self._prepare(module, remove).plan

    def deploy(self, module: Module, *, remove: Collection[str] = ()) -> App:
        """Check a module in full, then run it, from where its last commit ended if it ran before.

        Args:
            module: The module.
            remove: What is deployed, no longer declared, and shall go with its data:
                ``depot:name``, ``pstate:name``, or ``topology:name`` with its PStates.

        Raises:
            DeclarationError: When the module has a mistake; nothing has started then.
            DeployError: When the root holds a deployment of it that it does not fit.
            UsageError: When something to remove is not deployed, or still declared.
        """
        prepared = self._prepare(module, remove)
        prepared.plan.check()
        bound, mirrors, before = prepared.bound, prepared.mirrors, prepared.before
        store = LocalStore(self.root)
        queries = bind_queries(module.queries, prepared.specs | mirrors.pstates)
        mirrored = {name: mirrors.deployed[name] for name in mirrors_read(module.queries.values())}
        running = self.apps.get(module.name)
        if running is not None:
            running.prepare_update(bound)
            del self.apps[module.name]
            running.close()
        epoch = claim_epoch(store, module.name)
        store.sweep(module.name)
        reads = {each.declared.name: each.reads() for each in bound}
        drop_stale_pins(store, module.name, reads, epoch.number)
        depots = self._open_depots(module, epoch, prepared.migrations)
        info = self._place(store, module, bound, epoch)
        readable: dict[str, Depot | MirrorDepot] = {**depots, **mirrors.depots}
        deployment = _deployment(module, bound, readable, before, self._drive.now_ms())
        deployment = msgspec.structs.replace(
            deployment, mirrors=mirrors.deployed, removed=list(prepared.plan.reserved)
        )
        if before is None or _changed(before, deployment):
            save_deployment(store, deployment)
        delete_removed(self.places, module.name, deployment.removed)
        app = App(
            module.name,
            store=store,
            local=self.places.local,
            engine=self._engine,
            epoch=epoch,
            depots=depots,
            mirrors=mirrors.depots,
            info=info,
            drive=self._drive,
            bound_queries=queries,
            mirrored=MirroredPStates(self.root, mirrored),
        )
        for each in (with_depot_migrations(each, readable) for each in bound):
            starts = deployment.topologies[each.declared.name].starts
            app.add_topology(each, starts, self._observer)
        app.start()
        self.apps[module.name] = app
        return app

    def close(self) -> None:
        """Stop every module."""
        for app in self.apps.values():
            app.close()
        self.apps.clear()

    def update(self, module: Module, *, remove: Collection[str] = ()) -> App:
        """Replace a running module by another version of it.

        The running microbatch ends first; the new version goes on from its commit.

        Args:
            module: The new version.
            remove: What may go, as for :meth:`deploy`.

        Raises:
            NotFoundError: When no module of that name runs here.
            DeclarationError: When the new version has a mistake; the running one goes on.
            DeployError: When it does not fit what is deployed; the running one goes on.
        """
        if module.name not in self.apps:
            raise NotFoundError(
                f"no module {module.name!r} runs here",
                hint="deploy(module) starts one; running: " + (", ".join(self.apps) or "none"),
            )
        return self.deploy(module, remove=remove)

    def kill(self) -> None:
        """End every module as if the process had died, for tests.

        What runs is cut off and nothing is finished; a cluster on the same root goes on from the
        last commit. A task in the middle of a Python function ends after it.
        """
        for app in self.apps.values():
            app.kill()
        self.apps.clear()

    def __enter__(self) -> Self:
        """The cluster itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _prepare(self, module: Module, remove: Collection[str]) -> _Prepared:
        """Check a module in full and compare it with what is deployed."""
        store = LocalStore(self.root)
        _, settings = SettingsLog(store, module.name).latest()
        mirrors = resolve_mirrors(store, module)
        before = latest_deployment(store, module.name)
        ran = Revisions(store, module.name).latest()
        known = Known(before, None if ran is None else ran.info)
        bound = bind_topologies(self._engine, module, self.places, settings, mirrors.pstates, known)
        bound = migrated(before, bound, _ship)
        specs = {name: spec for each in bound for name, spec in each.program.pstates.items()}
        ddls = {name: to_ddl(depot.schema) for name, depot in module.depots.items()}
        broken = [] if before is None else list(broken_mirrors(store, module.name, ddls, specs))
        migrations = depot_migrations(before, module, _ship)
        plan = plan_changes(before, bound, module, specs, remove, broken)
        if before is not None and not plan.refused:
            try_migrations(before, bound, self.places)
            try_depot_migrations(before, module, migrations, self.root)
            check_key_partitioners(self.places, before, specs)
        return _Prepared(bound, specs, mirrors, before, plan, migrations)

    def _place(
        self, store: LocalStore, module: Module, bound: list[BoundTopology], epoch: Epoch
    ) -> ClusterInfo:
        """Where the module's fragments run now; a new revision when that is not where they ran."""
        revisions = Revisions(store, module.name)
        specs = {each.declared.name: fragment_specs(each.declared.graph) for each in bound}
        policies = {each.declared.name: each.declared.parallelism for each in bound}
        while True:  # the life before may make one more revision until it finds out
            latest = revisions.latest()
            before = ClusterInfo() if latest is None else latest.info
            info = deployed(before, self.present(), specs, policies)
            at_ms = self._drive.now_ms()
            made = Revision(info, epoch.number, at_ms, "deployed")
            if info is before or revisions.create(made):
                return info
            epoch.check()

    def _open_depots(
        self, module: Module, epoch: Epoch, migrations: Migrations
    ) -> dict[str, Depot]:
        return {
            name: Depot(
                depot_folder(self.root, module.name, name),
                depot_spec(declared, migrations.get(name, ())),
                epoch=epoch.number,
                fence=epoch.check,
                clock=lambda: self._drive.now_ms() / 1000.0,
            )
            for name, declared in module.depots.items()
        }


@dataclass(frozen=True)
class _Prepared:
    """A module checked: ready to be deployed when its plan refuses nothing."""

    bound: list[BoundTopology]
    specs: dict[str, PStateSpec]
    mirrors: Mirrors
    before: Deployment | None
    plan: DeployPlan
    migrations: Migrations


def _ship(function: Callable[..., Any]) -> bytes:
    from atoll.spark.shipping import ship_function

    return ship_function(function)


def _deployment(
    module: Module,
    bound: list[BoundTopology],
    depots: Mapping[str, Depot | MirrorDepot],
    before: Deployment | None,
    now_ms: int,
) -> Deployment:
    """What is deployed now; a depot's start is resolved only where a topology first meets it."""
    topologies = {}
    for each in bound:
        graph = each.declared.graph
        known = before.topologies.get(graph.topology) if before is not None else None
        read = {*graph.depots(), *graph.ticks()}
        starts = {} if known is None else {n: at for n, at in known.starts.items() if n in read}
        for source in graph.sources:
            if source.depot.name not in starts:
                start: StartFrom = source.start_from or end()
                starts[source.depot.name] = list(depots[source.depot.name].resolve_start(start))
        for name, tick in graph.ticks().items():
            starts.setdefault(name, [now_ms // tick.every_ms])
        topologies[graph.topology] = TopologyDeployment(
            each.declared.vnode_count,
            sorted(graph.depots()),
            {name: spec.to_json() for name, spec in each.program.pstates.items()},
            starts,
            tuple(deployed_hidden(match.hidden) for match in each.hidden if match.hidden),
            meanings_of(graph.written),
        )
    deployed = {} if before is None else before.depots
    return Deployment(
        module.name,
        now_ms,
        {
            name: DepotDeployment(
                to_ddl(each.schema),
                each.partitions,
                described_partitioner(each),
                depots[name].migrations,
                known_ids(deployed.get(name), each),
            )
            for name, each in module.depots.items()
        },
        topologies,
        {name: each.every_ms for name, each in module.ticks.items()},
    )


def _changed(before: Deployment, now: Deployment) -> bool:
    return msgspec.structs.replace(now, deployed_at_ms=before.deployed_at_ms) != before
