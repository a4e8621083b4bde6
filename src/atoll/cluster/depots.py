"""From a depot's declaration to the depot's own settings."""

from __future__ import annotations

from atoll.depot.migration import DepotMigration
from atoll.depot.spec import DepotSpec, Retention
from atoll.steps.append_to.bind import partitioner_of
from atoll.topology.declared import DepotDeclaration

BY_FUNCTION = "function"
"""What the deployment object says of a depot whose records go by a function."""


def depot_spec(
    declared: DepotDeclaration, migrations: tuple[DepotMigration, ...] = ()
) -> DepotSpec:
    """The settings of a declared depot."""
    return DepotSpec(
        name=declared.name,
        schema=declared.schema,
        partitions=declared.partitions,
        partitioner=partitioner_of(declared),
        retention=Retention(
            records_max=declared.records_max, age_seconds_max=declared.age_seconds_max
        ),
        migrations=migrations,
        module=declared.module,
        row_class=declared.row_class,
    )


def described_partitioner(declared: DepotDeclaration) -> str:
    """How records are spread, for the deployment object."""
    match declared.partition_by:
        case None:
            return ""
        case str(field):
            return field
    return BY_FUNCTION
