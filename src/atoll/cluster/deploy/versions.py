"""The first phase of a deployment: a version of a module, checked in full while another one runs.

Whatever can refuse a version does so here, and nothing is changed: mistakes of the module, what
does not fit what is deployed, migrations that fail, depots that could not be opened, fragments
without a unit to run on. So a plan without refusals is one that only the machine can thwart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from atoll.cluster.backfill.parts import parts_of
from atoll.cluster.backfill.planning import planned_fillings, with_fillings
from atoll.cluster.deploy.catalog import BoundTopology, bind_topologies
from atoll.cluster.deploy.changes import DeployChange, DeployPlan, plan_changes
from atoll.cluster.depots import depot_spec
from atoll.cluster.hidden.state import Known
from atoll.cluster.updates.depot_migrations import (
    Migrations,
    depot_migrations,
    try_depot_migrations,
)
from atoll.cluster.updates.migrations import migrated, try_migrations
from atoll.cluster.updates.mirrors import Mirrors, broken_mirrors, resolve_mirrors
from atoll.cluster.updates.partitioners import check_key_partitioners
from atoll.ddl import to_ddl
from atoll.depot.reader import resolve_start
from atoll.depot.segments.chain import SegmentChain
from atoll.depot.start import StartFrom, end
from atoll.errors import AtollError
from atoll.microbatch.control.tuning import SettingsLog
from atoll.placement.deploying import WorkerReport
from atoll.placement.registry import Registry, deployed, view
from atoll.queries.bind import bind_queries
from atoll.queries.declare import mirrors_read
from atoll.storage.folders import depot_folder
from atoll.storage.places import Place
from atoll.storage.roots import open_store
from atoll.topology.fragments import fragment_specs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from atoll.cluster.engines import Engine
    from atoll.module import Module
    from atoll.queries.run import BoundQuery
    from atoll.storage.folders import RootFolders
    from atoll.views.deployment import Deployment, FillingDeployment, MirrorDeployment


@dataclass(frozen=True)
class Version:
    """A version of a module, checked: all that starting it needs, also a second time.

    Attributes:
        module: As declared.
        bound: Its topologies.
        queries: Its queries, bound.
        mirrors: What it mirrors.
        mirrored: What its queries read of other modules.
        migrations: What the records of its depots go through.
        plan: What changes with it.
        fillings: What is filled from the past, by topology.
    """

    module: Module
    bound: list[BoundTopology]
    queries: Mapping[str, BoundQuery]
    mirrors: Mirrors
    mirrored: Mapping[str, MirrorDeployment]
    migrations: Migrations
    plan: DeployPlan
    fillings: Mapping[str, FillingDeployment] = field(default_factory=dict)


def checked_version(  # noqa: PLR0913  # what is there, and what comes
    module: Module,
    remove: Collection[str],
    *,
    engine: Engine,
    folders: RootFolders,
    before: Deployment | None,
    registry: Registry,
    present: Sequence[WorkerReport],
) -> Version:
    """Check a module in full and compare it with what is deployed.

    Args:
        module: The new version.
        remove: The parts that may go.
        engine: What will run it.
        folders: Where everything lies.
        before: What is deployed, or None.
        registry: What runs where.
        present: The workers that there are.

    Raises:
        DeclarationError: When the module has a mistake.
        DeployError: When a migration cannot be taken over.
        UsageError: When something to remove is not deployed, or still declared.
    """
    store = open_store(folders.root)
    _, settings = SettingsLog(store, module.name).latest()
    mirrors = resolve_mirrors(store, module, before)
    known = Known(before, view(registry, module.name))
    bound = bind_topologies(engine, module, folders, settings, mirrors.pstates, known)
    bound = migrated(before, bound, _ship)
    specs = {name: spec for each in bound for name, spec in each.program.pstates.items()}
    queries = bind_queries(module.queries, specs | mirrors.pstates)
    offered = module.depots
    broken = [] if before is None else list(broken_mirrors(store, module.name, offered, specs))
    migrations = depot_migrations(before, module, _ship)
    plan = plan_changes(before, bound, module, specs, remove, broken)
    fillings = planned_fillings(store, module.name, before, bound)
    if before is not None:
        plan = with_fillings(plan, store, before, bound, fillings)
    if not plan.refused:  # whether the parts can be bound
        for each in bound:
            if each.declared.name in fillings:
                parts_of(each, fillings[each.declared.name])
    if before is not None and not plan.refused:
        try_migrations(before, bound, folders)
        try_depot_migrations(before, module, migrations, folders.root)
        check_key_partitioners(folders, before, specs)
    if not plan.refused:
        refusals = [
            *_misplaced(bound, registry, module.name, present),
            *_unopened(module, migrations, before, folders.root),
        ]
        plan = replace(plan, changes=(*plan.changes, *refusals))
    mirrored = {name: mirrors.deployed[name] for name in mirrors_read(module.queries.values())}
    return Version(module, bound, queries, mirrors, mirrored, migrations, plan, fillings)


def placed(
    bound: list[BoundTopology], registry: Registry, module: str, present: Sequence[WorkerReport]
) -> Registry:
    """Where the fragments of these topologies run, given where they ran; the same if they stay.

    Raises:
        DeclarationError: When a new one finds no parallel unit.
    """
    specs = {each.declared.name: fragment_specs(each.declared.graph) for each in bound}
    policies = {each.declared.name: each.declared.parallelism for each in bound}
    return deployed(registry, module, present, specs, policies)


def _misplaced(
    bound: list[BoundTopology], registry: Registry, module: str, present: Sequence[WorkerReport]
) -> Iterator[DeployChange]:
    """The topologies that find no unit to run on."""
    for upto in range(len(bound)):
        try:
            placed(bound[: upto + 1], registry, module, present)
        except AtollError as error:
            yield _refused("topology", bound[upto].declared.name, error)
            return


def _unopened(
    module: Module, migrations: Migrations, before: Deployment | None, root: Place
) -> Iterator[DeployChange]:
    """The depots that could not be opened, or not be read from where a topology begins."""
    for name, declared in module.depots.items():
        folder = depot_folder(root, module.name, name)
        try:
            spec = depot_spec(declared, migrations.get(name, ()))
            chain = SegmentChain(folder, spec.partitions, to_ddl(spec.schema), spec.migrations)
            chain.refresh()
            if not chain.headers:
                continue
            for start in _starts(module, before, name):
                resolve_start(chain, start, 0)
        except AtollError as error:
            yield _refused("depot", name, error)


def _starts(module: Module, before: Deployment | None, depot: str) -> Iterator[StartFrom]:
    """Where topologies begin that read a depot for the first time."""
    known = {} if before is None else before.topologies
    for name, topology in module.topologies.items():
        if name in known and depot in known[name].starts:
            continue
        for source in topology.graph.sources:
            if source.depot.name == depot:
                yield source.start_from or end()


def _refused(kind: Any, name: str, error: AtollError) -> DeployChange:
    where = "".join(f", {key} {value}" for key, value in error.context.items())
    return DeployChange("refused", kind, name, error.message + where, hint=error.hint or "")


def _ship(function: Callable[..., Any]) -> bytes:
    from atoll.spark.shipping import ship_function

    return ship_function(function)
