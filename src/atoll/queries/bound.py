"""A query that a topology asks, as its tasks run it: the answer beside each row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.steps.materialize.bind import BoundMaterialize

if TYPE_CHECKING:
    from atoll.engine.step import Work
    from atoll.queries.run import BoundQuery
    from atoll.topology.operator import Makes


@dataclass(frozen=True)
class BoundAsk(BoundMaterialize):
    """Put a query's answer beside each row, and stage them; any actor may.

    No store is open then, so that who reads what others write waits for none of them.
    """

    emitted: pa.Schema
    query: str
    arguments: tuple[tuple[str, str], ...]
    added: pa.Schema
    queries: Mapping[str, BoundQuery]
    """It, and all that it asks."""

    gives: ClassVar[Makes] = "any"

    @property
    def emits(self) -> pa.Schema:
        """A row per row of the answer."""
        return self.emitted

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Each task's rows with their answers in a file of their own."""
        from atoll.queries.asking import answered
        from atoll.queries.run import Reading

        reading = Reading(self.queries, work.view, math.inf)
        for sequence, part in work.parts(self.tag):
            work.emit(self.tag, answered(self, part, reading), sequence)
