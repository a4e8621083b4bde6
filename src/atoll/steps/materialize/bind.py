"""``materialize`` as tasks run it: stage the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.engine.step import BoundStep, Phase

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from atoll.engine.step import Packing, Work
    from atoll.steps.materialize.run import SpreadPacker
    from atoll.topology.operator import Makes


@dataclass(frozen=True)
class BoundMaterialize(BoundStep):
    """Stage the rows; any actor may."""

    rows: pa.Schema

    phase: ClassVar[Phase] = Phase.HAND_ON
    keyed: ClassVar[bool] = False
    gives: ClassVar[Makes] = "one"

    @property
    def needs(self) -> Collection[str]:
        """All columns: they go on."""
        return self.rows.names  # type: ignore[no-any-return]

    @property
    def emits(self) -> pa.Schema:
        """The rows."""
        return self.rows

    def packer(self, packing: Packing) -> SpreadPacker:
        """What a task has goes as a whole to one actor."""
        from atoll.steps.materialize.run import SpreadPacker

        return SpreadPacker(self, packing.turn, tracked=self.tag in packing.tracked)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Each task's rows in a file of their own."""
        for sequence, part in work.parts(self.tag):
            work.emit(self.tag, part, sequence)
