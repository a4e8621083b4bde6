"""The later phases of a deployment: a new life of a module takes over, and its version starts.

*Switch*: the next epoch is claimed, depots are opened, fragments placed, topologies prepared where
their last commits ended. *Start*: the root says what is deployed, then everything runs at once.
A phase that fails leaves nothing open and nothing running; what the root said before stands again
as far as the disk allows, and :func:`atoll.cluster.deploy.last_run.reinstate` does the rest later.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from atoll.cluster.app import App
from atoll.cluster.backfill.parts import parts_of
from atoll.cluster.backfill.planning import drop_others
from atoll.cluster.deploy.last_run import LastRun, reinstate
from atoll.cluster.deploy.removing import delete_removed
from atoll.cluster.deploy.versions import Version, placed
from atoll.cluster.depots import depot_spec, described_partitioner
from atoll.cluster.hidden.adoption import deployed_hidden
from atoll.cluster.scaling.rests import note_rest
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.cluster.sinks.declared import signatures
from atoll.cluster.updates.depot_migrations import known_ids, with_depot_migrations
from atoll.ddl import to_ddl
from atoll.depot.depot import Depot
from atoll.depot.start import StartFrom, end
from atoll.logs import get_logger
from atoll.microbatch.epochs import Epoch, claim_epoch, refuse_other_processes
from atoll.microbatch.plans.mirrored import drop_stale_pins
from atoll.placement.info import ClusterInfo
from atoll.placement.registry import view
from atoll.storage.folders import depot_folder
from atoll.storage.roots import RootStore, open_store
from atoll.topology.kept.meanings import meanings_of
from atoll.views.deployment import (
    Deployment,
    DepotDeployment,
    FillingDeployment,
    TopologyDeployment,
    latest_deployment,
    save_deployment,
)
from atoll.views.mirrored import MirroredPStates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from atoll.cluster.clockwork import Drive
    from atoll.cluster.engines import Engine
    from atoll.depot.mirror import MirrorDepot
    from atoll.microbatch.stepping import Observer
    from atoll.placement.deploying import WorkerReport
    from atoll.storage.folders import RootFolders


_log = get_logger("atoll.cluster")


@dataclass(frozen=True)
class Lives:
    """Begins lives of modules.

    Attributes:
        folders: Where everything lies.
        engine: What runs the attempts.
        observer: Called after each numbered step of every microbatch.
        drive: What moves the topologies.
        present: The workers that there are.
        revisions: Of the root's cluster.
    """

    folders: RootFolders
    engine: Engine
    observer: Observer | None
    drive: Drive
    present: Callable[[], Sequence[WorkerReport]]
    revisions: Revisions

    def begin(self, version: Version, last: LastRun | None) -> tuple[App, LastRun]:
        """Let a version take the module over and run it.

        Args:
            version: The version, checked.
            last: What the root has to say before; None when that is what it says.

        Returns:
            The module as it runs, and what stands from now on.

        Raises:
            FencedError: When another process has taken the module over since it stood.
            AtollError: When it cannot be; nothing of it runs then.
        """
        store, name = open_store(self.folders.root), version.module.name
        if last is not None:
            refuse_other_processes(store, name, last.epoch)
        with ExitStack() as undo:
            epoch = claim_epoch(store, name)
            undo.callback(note_rest, store, name, epoch)
            store.sweep(name)
            store.sweep("meta")  # where others may be creating objects just now: they notice
            before = self._stood(store, name, last, epoch, undo)
            depots = self._open_depots(version, epoch, undo)
            info = self._place(version, epoch)
            readable: dict[str, Depot | MirrorDepot] = {**depots, **version.mirrors.depots}
            deployment = self._deployment(version, readable, before)
            app = self._app(store, version, epoch, depots)
            undo.callback(app.kill)
            for each in (with_depot_migrations(each, readable) for each in version.bound):
                topology = deployment.topologies[each.declared.name]
                filling = topology.filling
                parts = None if filling is None else parts_of(each, filling)
                app.add_topology(each, topology.starts, self.observer, parts)
            if before is None or _changed(before, deployment):
                epoch.check()
                save_deployment(store, deployment)
            app.start()
            undo.pop_all()
        self._clear(store, version, deployment, epoch)
        return app, LastRun(version, deployment, info, epoch.number)

    # Inside ---------------------------------------------------------------------------------------

    def _stood(
        self,
        store: RootStore,
        name: str,
        last: LastRun | None,
        epoch: Epoch,
        undo: ExitStack,
    ) -> Deployment | None:
        """What stands before this life; it is what stands again when the life does not begin."""
        if last is not None:
            before: Deployment | None = last.deployment
            self._reinstate(name, before, last.info, epoch)
        else:
            before = latest_deployment(store, name)
        registry = self.revisions.take_over(
            name, lambda now: Revision(now, name, epoch.number, self.drive.now_ms(), "taken over")
        )
        info = view(registry, name)

        def stand_again() -> None:
            try:
                self._reinstate(name, before, info, epoch)
            except Exception as error:  # noqa: BLE001 - what went wrong before is what is told
                _log.warning("what was deployed before is not restored", error=str(error))

        undo.callback(stand_again)
        return before

    def _reinstate(
        self,
        name: str,
        deployment: Deployment | None,
        info: ClusterInfo,
        epoch: Epoch,
    ) -> None:
        now_ms = self.drive.now_ms()
        reinstate(self.revisions, name, deployment, info, epoch=epoch, now_ms=now_ms)

    def _open_depots(self, version: Version, epoch: Epoch, undo: ExitStack) -> dict[str, Depot]:
        depots = {}
        for name, declared in version.module.depots.items():
            depots[name] = Depot(
                depot_folder(self.folders.root, version.module.name, name),
                depot_spec(declared, version.migrations.get(name, ())),
                epoch=epoch.number,
                fence=epoch.check,
                clock=lambda: self.drive.now_ms() / 1000.0,
            )
            undo.callback(_closed, depots[name])
        return depots

    def _place(self, version: Version, epoch: Epoch) -> ClusterInfo:
        """Where the fragments run now; a new revision when that is not where they ran."""
        name = version.module.name
        stood = self.revisions.change(
            lambda registry: placed(version.bound, registry, name, self.present()),
            lambda now: Revision(now, name, epoch.number, self.drive.now_ms(), "deployed"),
        )
        return view(stood, name)

    def _app(
        self,
        store: RootStore,
        version: Version,
        epoch: Epoch,
        depots: Mapping[str, Depot],
    ) -> App:
        return App(
            version.module.name,
            store=store,
            local=self.folders.local,
            engine=self.engine,
            epoch=epoch,
            depots=depots,
            mirrors=version.mirrors.depots,
            revisions=self.revisions,
            drive=self.drive,
            bound_queries=version.queries,
            mirrored=MirroredPStates(self.folders.root, version.mirrored),
            sources=version.module.sources(),
        )

    def _deployment(
        self,
        version: Version,
        depots: Mapping[str, Depot | MirrorDepot],
        before: Deployment | None,
    ) -> Deployment:
        now_ms = self.drive.now_ms()
        made = _deployment(version, depots, before, now_ms)
        return msgspec.structs.replace(
            made, mirrors=version.mirrors.deployed, removed=list(version.plan.reserved)
        )

    def _clear(
        self, store: RootStore, version: Version, deployment: Deployment, epoch: Epoch
    ) -> None:
        """Drop what the version removed; the next deployment does what could not be done."""
        reads = {each.declared.name: each.reads() for each in version.bound}
        try:
            drop_stale_pins(store, deployment.module, reads, epoch.number)
            delete_removed(self.folders, deployment.module, deployment.removed)
            drop_others(store, self.folders.local, deployment.module, version.fillings)
        except Exception as error:  # noqa: BLE001 - the version runs, and nothing is lost by it
            _log.warning("what was removed is not all deleted yet", error=str(error))


def _closed(depot: Depot) -> None:
    """Close a depot that no life needs; what went wrong before is what is told."""
    try:
        depot.close()
    except Exception as error:  # noqa: BLE001 - as said
        _log.warning("a depot was not closed well", depot=depot.spec.name, error=str(error))


def _deployment(
    version: Version,
    depots: Mapping[str, Depot | MirrorDepot],
    before: Deployment | None,
    now_ms: int,
) -> Deployment:
    """What is deployed now; a depot's start is resolved only where a topology first meets it."""
    module, topologies = version.module, {}
    for each in version.bound:
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
            tuple(graph.appends_to()),
            *_filled(known, version.fillings.get(graph.topology)),
            signatures(graph),
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
                callable(each.partition_by),
            )
            for name, each in module.depots.items()
        },
        topologies,
        {name: each.every_ms for name, each in module.ticks.items()},
    )


def _filled(
    known: TopologyDeployment | None, filling: FillingDeployment | None
) -> tuple[FillingDeployment | None, int]:
    """What is filled of a topology, and how often that was done."""
    fills = 0 if known is None else known.fills
    begun = filling is not None and (known is None or known.filling != filling)
    return filling, fills + begun


def _changed(before: Deployment, now: Deployment) -> bool:
    return msgspec.structs.replace(now, deployed_at_ms=before.deployed_at_ms) != before
