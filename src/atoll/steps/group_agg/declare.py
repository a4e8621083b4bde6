"""Spark SQL's aggregates over the rows of a microbatch: ``group_by("k").agg("sum(v) AS total")``.

Spark builds partial aggregates where the rows are, and only those cross its exchange.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import escaped, query, quoted
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.errors import DeclarationError
    from atoll.topology.querying.step import Done, InQuery

_ANY = "__atoll_rows"


_OURS = {
    **{
        word: word
        for word in (
            *("approx_count_distinct", "bool_and", "bool_or", "collect_list", "collect_set"),
            *("count_if", "first", "last", "max_by", "min_by"),
        )
    },
    "any": "bool_or",
    "array_agg": "collect_list",
    "every": "bool_and",
    "first_value": "first",
    "last_value": "last",
    "some": "bool_or",
}
"""The aggregates of ``atoll.agg`` that take what Spark's of these names take."""

_CALL = re.compile(
    r"\s*(\w+)\s*\((\s*distinct\b)?(.*)\)\s+AS\s+(\w+)\s*\Z", re.IGNORECASE | re.DOTALL
)


def ours(expressions: Sequence[str]) -> str:
    """What to write for the first of Spark's aggregates that has a counterpart."""
    for each in expressions:
        found = _CALL.match(each)
        if found is None:
            continue
        word, distinct, given, name = found.groups()
        own = _OURS.get(word.lower())
        if distinct:
            own = "count_distinct" if word.lower() == "count" else None
        if own is not None:
            arguments = ", ".join(f'"{argument.strip()}"' for argument in given.split(","))
            return f"{name}=agg.{own}({arguments})"
    return 'total=agg.sum("v")'


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

    @property
    def without_spark(self) -> str:
        """Atoll's own aggregates."""
        return f"write it with the aggregates of atoll.agg: agg({ours(self.expressions)})"

    def needs_spark(self, why: Exception) -> DeclarationError:
        """With what to write instead."""
        error = super().needs_spark(why)
        error.hint = self.without_spark
        return error

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
