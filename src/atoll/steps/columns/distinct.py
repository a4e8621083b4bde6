"""Each combination of values once: ``stream.distinct("user_id")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import named
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator
    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Distinct(ColumnOperator):
    """Spark's ``distinct``, of the expressions named or of all columns.

    Only what is compared comes out. To keep one whole row of several would be to keep any, and
    two steps that read the same stream could get different ones.
    """

    makes_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    expressions: tuple[str, ...]

    @property
    def computed(self) -> tuple[tuple[str, str], ...]:
        """Its expressions, without their names."""
        pairs = ((text, named(text)[0]) for text in self.expressions)
        return tuple(pair for pair in pairs if pair[1] != "*")

    def in_task(self, rows: pa.Schema, made: pa.Schema | None = None) -> BatchOperator:
        """What is compared; which of it is the same, whoever runs it says."""
        from atoll.steps.columns.computing import selecting

        return selecting(self, self.expressions or ("*",), rows, made)

    def in_query(self, query: InQuery) -> Done:
        """What is compared, each once."""
        from atoll.steps.columns.tables import distinct
        from atoll.topology.querying.step import in_batches, one_after_the_other

        made = self.certified(query.rows)
        runs = (in_batches(made), lambda tables, _: distinct(tables[0]))
        return made.schema(query.inputs), one_after_the_other(runs)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One exchange by all columns, after what repeats within a task is left out."""
        frame = frames[0]
        return (frame.selectExpr(*self.expressions) if self.expressions else frame).distinct()
