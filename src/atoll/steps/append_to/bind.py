"""``append_to`` as tasks run it: write the rows down for a depot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.depot.partitioner import Custom, HashBy, Partitioner, Random
from atoll.engine.step import BoundStep, Phase
from atoll.microbatch.accounts.entries import EndChart
from atoll.steps.append_to.fitting import check_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from atoll.engine.step import Packing, Work
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.append_to.declare import AppendTo
    from atoll.steps.append_to.run import AppendPacker
    from atoll.topology.binding import Binding
    from atoll.topology.declared import DepotDeclaration


@dataclass(frozen=True)
class BoundAppend(BoundStep):
    """Write the rows down for a depot; any actor may."""

    depot: str
    schema: pa.Schema
    partitions: int
    partitioner: Partitioner | None
    """None of another module's depot: its own process says where records go."""

    phase: ClassVar[Phase] = Phase.HAND_ON
    keyed: ClassVar[bool] = False

    @property
    def needs(self) -> Collection[str]:
        """The depot's columns."""
        return self.schema.names  # type: ignore[no-any-return]

    def packer(self, packing: Packing) -> AppendPacker:
        """What a task has goes as a whole to one actor."""
        from atoll.steps.append_to.run import AppendPacker

        return AppendPacker(self, packing.turn, packing.rejects)

    def chart(self, pstates: Mapping[str, PStateSpec]) -> EndChart:
        """Its rows are in files afterwards."""
        return EndChart(self.tag, self.label, "each", depot=self.depot)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Each task's rows in a file of their own."""
        for sequence, part in work.parts(self.tag):
            work.append(self.tag, self.depot, part, sequence)


def bound_append(step: AppendTo, binding: Binding) -> BoundAppend:
    """The step as tasks run it.

    Raises:
        DeclarationError: When the columns are not the depot's.
    """
    check_columns(step, binding.rows(step))
    depot = step.depot
    return BoundAppend(
        *binding.name(step),
        depot.name,
        depot.schema,
        depot.partitions,
        None if depot.mirrored else partitioner_of(depot),
    )


def partitioner_of(declared: DepotDeclaration) -> Partitioner:
    """How a declared depot spreads its records."""
    match declared.partition_by:
        case None:
            return Random()
        case str(field):
            return HashBy(field)
        case function:
            return Custom(function)
