"""Takes over migrations of depots into what is deployed, and tries new ones on stored records.

The deployment keeps every migration of a depot for as long as the depot is there, since a segment
that was written before one may still be read; so a declaration may leave it out later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from atoll.ddl import to_ddl
from atoll.depot.logs.followed import LogDepot
from atoll.depot.migration import DepotMigration
from atoll.depot.reader import read_range
from atoll.depot.segments.chain import SegmentChain
from atoll.errors import DeployError, UserCodeError
from atoll.storage.folders import depot_folder
from atoll.storage.places import Place

if TYPE_CHECKING:
    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.depot.depot import Depot
    from atoll.depot.mirror import MirrorDepot
    from atoll.module import Module
    from atoll.topology.declared import DeclaredMigration, DepotDeclaration
    from atoll.views.deployment import Deployment, DepotDeployment


Ship = Callable[[Callable[..., Any]], bytes]
Migrations = dict[str, tuple[DepotMigration, ...]]

_SAMPLE = 100
"""So many records of a depot are converted before a new migration is deployed."""


def new_migrations(
    before: DepotDeployment | None, declared: DepotDeclaration
) -> list[DeclaredMigration]:
    """Those that what is deployed has not; none for a depot that is not deployed yet."""
    known = () if before is None else before.migrated
    return [] if before is None else [m for m in declared.migrations if m.id not in known]


def not_migrated(before: DepotDeployment, declared: DepotDeclaration) -> str | None:
    """Why the depot's new migrations cannot be, in words; None when there is nothing to say."""
    new, ddl = new_migrations(before, declared), to_ddl(declared.schema)
    if len(new) > 1:
        return (
            f"two new migrations, {new[0].id} and {new[1].id}: deploy one, then the next, since "
            "each starts from the schema that is deployed"
        )
    if new and ddl == before.ddl:
        return f"migration {new[0].id} changes nothing: the declared schema is the deployed one"
    return None


def known_ids(before: DepotDeployment | None, declared: DepotDeclaration) -> tuple[str, ...]:
    """The ids of all migrations that were ever declared for a depot."""
    known = () if before is None else before.migrated
    return (*known, *(each.id for each in declared.migrations if each.id not in known))


def depot_migrations(before: Deployment | None, module: Module, ship: Ship) -> Migrations:
    """For each depot the migrations deployed before, their functions corrected, and a new one.

    Raises:
        DeployError: When a function cannot be stored.
    """
    if before is None:
        return {}
    deployed = before.depots
    return {
        name: tuple(_of_depot(deployed[name], declared, ship))
        for name, declared in module.depots.items()
        if name in deployed
    }


def try_depot_migrations(
    before: Deployment, module: Module, migrations: Migrations, root: Place
) -> None:
    """Read the oldest records through each new migration, before anything is changed.

    Raises:
        DeployError: When one cannot be converted; partition and offset are in the message.
    """
    for name, declared in module.depots.items():
        if new_migrations(before.depots.get(name), declared):
            folder = depot_folder(root, module.name, name)
            try:
                _try(folder, declared, migrations[name])
            except UserCodeError as error:
                raise DeployError(error.message, hint=error.hint, **error.context) from error


def with_depot_migrations(
    bound: BoundTopology, depots: Mapping[str, Depot | MirrorDepot]
) -> BoundTopology:
    """The topology, told how the depots that it reads are read: older records, and logs."""
    names = {name for name, _ in bound.program.depots.values() if name in depots}
    known = {name: depots[name].migrations for name in sorted(names) if depots[name].migrations}
    found = {name: depots[name] for name in sorted(names)}
    logs = {name: each.reader for name, each in found.items() if isinstance(each, LogDepot)}
    return replace(bound, program=replace(bound.program, depot_migrations=known, logs=logs))


def _try(folder: Place, declared: DepotDeclaration, migrations: tuple[DepotMigration, ...]) -> None:
    chain = SegmentChain(folder, declared.partitions, to_ddl(declared.schema), migrations)
    chain.refresh()
    left = _SAMPLE
    for partition, (start, end) in enumerate(
        zip(chain.start_offsets(), chain.end_offsets(), strict=True)
    ):
        count = min(left, end - start)
        read_range(chain, declared.schema, partition, start, start + count)
        left -= count


def _of_depot(
    before: DepotDeployment, declared: DepotDeclaration, ship: Ship
) -> Iterator[DepotMigration]:
    wanted = {each.id: each for each in declared.migrations}
    for known in before.migrations:
        again = wanted.get(known.id)
        function = known.function if again is None else _shipped(declared, again, ship)
        yield msgspec.structs.replace(known, function=function)
    for each in new_migrations(before, declared):
        after = to_ddl(declared.schema)
        yield DepotMigration(each.id, before.ddl, after, _shipped(declared, each, ship))


def _shipped(declared: DepotDeclaration, migration: DeclaredMigration, ship: Ship) -> bytes:
    try:
        return ship(migration.function)
    except Exception as error:
        raise DeployError(
            f"the function of migration {migration.id!r} of depot {declared.name!r} cannot be "
            f"stored: {error}",
            hint="let it use nothing that cannot be pickled, such as open files",
        ) from error
