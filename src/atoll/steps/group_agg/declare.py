"""Spark SQL's aggregates over the rows of a microbatch: ``group_by("k").agg("sum(v) AS total")``.

Spark builds partial aggregates where the rows are, and only those cross its exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import escaped, query, quoted
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.topology.querying.step import Done, InQuery

_ANY = "__atoll_rows"


@dataclass(frozen=True, eq=False)
class GroupAgg(ColumnOperator):
    """One row per combination of the keys (columns of the input), nulls a value like others.

    Without keys one row in all, also of no rows: the step *fires* in every microbatch.
    """

    makes_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    keys: tuple[str, ...]
    expressions: tuple[str, ...]

    @property
    def title(self) -> str:
        """As users write it."""
        return "agg"

    @property
    def fires(self) -> bool:
        """Whether a row comes out although none came in."""
        return not self.keys

    def in_query(self, query: InQuery) -> Done:
        """As a fold."""
        from atoll.steps.group_agg.in_query import aggregates

        return aggregates(self, query)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """Partial aggregates, one exchange, the aggregates."""
        keys = [quoted(name) for name in self.keys]
        if keys:
            wanted = [*keys, *self.expressions]
            return query(wanted, "{rows}", " GROUP BY " + escaped(", ".join(keys)), rows=frames[0])
        # The count makes it an aggregation, whatever the expressions are.
        wanted = [*self.expressions, f"count(1) AS {_ANY}"]
        return query(wanted, "{rows}", rows=frames[0]).drop(_ANY)
