"""The one row that a query begins with: what its caller gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import RootOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Arguments(RootOperator):
    """One column per parameter."""

    in_queries: ClassVar[bool] = True

    schema: pa.Schema

    @property
    def title(self) -> str:
        """As users write it."""
        return "query"

    def in_query(self, query: InQuery) -> Done:  # noqa: ARG002 - it has no input
        """The row as it came."""
        from atoll.topology.querying.step import as_they_are

        return self.schema, as_they_are
