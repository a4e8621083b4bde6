"""What a commit says of rows, as tasks find it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.engine.step import BoundStep
from atoll.microbatch.accounts.entries import EndChart

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from atoll.engine.step import Packing, Work
    from atoll.microbatch.accounts.entries import Packs
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.observe.run import ObservePacker


@dataclass(frozen=True)
class BoundObserve(BoundStep):
    """Tell the highest event time in ``column``, less a delay; without a column count the rows."""

    name: str
    column: str | None
    delay_ms: int

    packs: ClassVar[Packs] = "told"
    keyed: ClassVar[bool] = False

    @property
    def needs(self) -> Collection[str]:
        """The event time."""
        return () if self.column is None else (self.column,)

    def packer(self, packing: Packing) -> ObservePacker:
        """A few numbers of each task, for the same actor."""
        from atoll.steps.observe.run import ObservePacker

        return ObservePacker(self, packing.ranges, packing.units[0])

    def chart(self, pstates: Mapping[str, PStateSpec]) -> EndChart:
        """Without a column its number is that of its rows."""
        counts = self.name if self.column is None else None
        return EndChart(self.tag, self.label, "told", counts=counts)

    def both(self, one: int | None, other: int) -> int:
        """What two parts of the rows tell together."""
        if one is None:
            return other
        return one + other if self.column is None else max(one, other)

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Put together what the tasks tell."""
        from atoll.steps.observe.run import seen

        told = seen(self, rows)
        if self.column is None:
            work.dropped[self.name] = sum(told.values())
        else:
            work.watermarks[self.name] = told
