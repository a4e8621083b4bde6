"""Makes what moves a module's topologies: each goes on where its last commit ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from atoll.cluster.backfill.filling import UpTo, Whole, while_filling
from atoll.cluster.delivery import Delivery, delivered_before
from atoll.engine.charts import job_charts
from atoll.microbatch import events as ev
from atoll.microbatch.actions import Actions
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.commits.progress import (
    beginning,
    known_checkpoints,
    settle_commit,
    with_starts,
)
from atoll.microbatch.commits.rollback import complete_rollback
from atoll.microbatch.commits.tidy import drop_orphans
from atoll.microbatch.control.pausing import paused
from atoll.microbatch.parcels.room import ParcelRoom
from atoll.microbatch.plans.migrating import Migrating
from atoll.microbatch.plans.mirrored import MirroredTopologies
from atoll.names import mirrored_name
from atoll.placement.placement import placement_of

if TYPE_CHECKING:
    from atoll.cluster.clockwork import Drive
    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.cluster.engines import Engine
    from atoll.cluster.sinks.running import RunningSinks
    from atoll.depot.depot import Depot
    from atoll.depot.mirror import MirrorDepot
    from atoll.errors import FencedError
    from atoll.microbatch.control.options import Options
    from atoll.microbatch.epochs import Epoch
    from atoll.microbatch.stepping import Observer, Stepper
    from atoll.placement.info import ClusterInfo
    from atoll.storage.roots import RootStore
    from atoll.topology.graph import Graph


@dataclass(frozen=True)
class Loops:
    """What the topologies of a module that runs have in common.

    Attributes:
        name: The module's name.
        store: The root.
        engine: What runs attempts.
        epoch: The module's life.
        drive: What moves topologies.
        depots: The module's depots.
        mirrors: Those of others that it reads.
        options: The options of a topology, by its name.
        info: What runs where.
        housekeeping: Called as part of step 5.
        on_fenced: Called when another life has taken over.
        sinks: What brings rows to its sinks.
    """

    name: str
    store: RootStore
    engine: Engine
    epoch: Epoch
    drive: Drive
    depots: Mapping[str, Depot]
    mirrors: Mapping[str, MirrorDepot]
    options: Callable[[str], Options]
    info: Callable[[], ClusterInfo]
    housekeeping: Callable[[], None]
    on_fenced: Callable[[FencedError], None]
    sinks: RunningSinks

    def whole(self, bound: BoundTopology) -> Whole:
        """What a topology goes on with when all of it has joined."""
        graph, program = bound.declared.graph, bound.program
        depots: dict[str, Depot | MirrorDepot] = {**self.depots, **self.mirrors}
        executor = self.engine.executor(bound, {name: depots[name] for name in graph.depots()})
        executor.stand_by(placement_of(self.info(), graph.topology))
        return Whole(
            lambda now: replace(
                now,
                executor=executor,
                mirrored=self._mirrored(bound),
                charts=job_charts(program, bound.cut),
            ),
            ev.Joined(_vnode_counts(bound), program.clocks(), _migrating(bound)),
            [asdict(each) for each in bound.columns],
        )

    def loop(
        self,
        bound: BoundTopology,
        starts: Mapping[str, list[int]],
        observer: Observer | None,
        beside: Stepper | None = None,
    ) -> Stepper:
        """What moves a topology; beside another one it reads no further than that."""
        graph = bound.declared.graph
        options = self.options(bound.declared.name)
        bound = replace(bound, options=options if beside is None else while_filling(options))
        targets = own_targets(graph)
        sent = sorted({*graph.appends_to()} - {*targets})
        sinks = self.sinks.of(graph.topology)
        boxes = {name: each.box for name, each in sinks.items()}
        own = {n: self.depots[n] for n in graph.depots() if n in self.depots}
        mirrors = {n: self.mirrors[n] for n in graph.depots() if n not in self.depots}
        depots: dict[str, Depot | MirrorDepot] = {**own, **mirrors}
        ticks = {name: each.every_ms for name, each in graph.ticks().items()}
        complete_rollback(self.store, self.name, graph.topology)
        last = latest_commit(self.store, self.name, graph.topology)
        settle_commit(self.store, self.name, graph.topology, last)
        executor = self.engine.executor(bound, depots)
        placement = placement_of(self.info(), bound.declared.name)
        executor.stand_by(placement)
        if last.id:
            drop_orphans(self.store, self.name, graph.topology, last)
        first = beginning(self.store, self.name, graph.topology, last)
        rests = paused(self.store, self.name, graph.topology)
        state = ev.State(
            epoch=self.epoch.number,
            options=bound.options,
            condition=ev.Condition.RUNNING if rests is None else ev.Condition.PAUSED,
            paused=rests,
            last=with_starts(last, starts, (*depots, *ticks)),
            vnode_counts=_vnode_counts(bound),
            checkpoints=known_checkpoints(self.store, self.name, graph.topology, last),
            migrations=_migrating(bound),
            placement=placement,
            delivered=delivered_before(last, {name: self.depots[name] for name in targets}),
            clocks=bound.program.clocks(),
            ticks=ticks,
        )
        actions = Actions(
            self.name,
            graph.topology,
            store=self.store,
            epoch=self.epoch,
            executor=executor,
            depots=depots
            if beside is None
            else {name: UpTo(each, name, beside) for name, each in depots.items()},
            options=bound.options,
            now_ms=self.drive.now_ms,
            steady_ms=self.drive.steady_ms,
            floor=last.floor,
            deliver=Delivery(
                self.store, self.depots, self.name, graph.topology, self.drive.now_ms, sinks
            ),
            room=ParcelRoom(self.store, (self.name, graph.topology), sent, boxes)
            if sent or boxes
            else None,
            housekeeping=self.housekeeping,
            starts=starts,
            ticks=tuple(ticks),
            timeline=last.timeline,
            mirrored=self._mirrored(bound),
            charts=job_charts(bound.program, bound.cut),
        )
        return self.drive.loop(
            actions, state, first=first, observer=observer, on_fenced=self.on_fenced
        )

    def _mirrored(self, bound: BoundTopology) -> MirroredTopologies:
        """The topologies that it reads from."""
        reader = (self.name, bound.declared.graph.topology)
        return MirroredTopologies(self.store, reader, bound.reads(), self.epoch.number)


def own_targets(graph: Graph) -> tuple[str, ...]:
    """The depots of its own module that a topology appends to."""
    return tuple(name for name in graph.appends_to() if mirrored_name(name) is None)


def _vnode_counts(bound: BoundTopology) -> dict[str, int]:
    return {name: each.vnode_count for name, each in bound.declared.graph.pstates.items()}


def _migrating(bound: BoundTopology) -> dict[str, Migrating]:
    return {
        name: Migrating(spec.generation, spec.migrations[-1].id)
        for name, spec in bound.program.pstates.items()
        if spec.migrations
    }
