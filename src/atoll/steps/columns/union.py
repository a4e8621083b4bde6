"""Rows of several streams with the same columns, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import DeclarationError
from atoll.topology.flow import Flow, after
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator
    from atoll.topology.querying.step import Done, InQuery


@dataclass(frozen=True, eq=False)
class Union(ColumnOperator):
    """Spark's ``unionByName``: columns are matched by name; duplicates stay."""

    keeps_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True
    unites: ClassVar[bool] = True

    def in_task(self, rows: pa.Schema, made: pa.Schema | None = None) -> BatchOperator:
        """The columns of a branch brought in line."""
        from atoll.steps.columns.computing import aligning

        return aligning(self, rows, made or rows)

    def in_query(self, query: InQuery) -> Done:
        """The rows of all inputs, one input after the other."""
        from atoll.steps.columns.computing import united
        from atoll.steps.columns.tables import concatenated

        schema = united(self, query.inputs)
        return schema, concatenated([self.in_task(each, schema) for each in query.inputs])

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """A narrow union; the order between the streams is not defined."""
        united = frames[0]
        for frame in frames[1:]:
            united = united.unionByName(frame)
        return united


def union(streams: Sequence[Flow], place: str) -> Flow:
    """The rows of all streams."""
    for each in streams:
        if not isinstance(each, Flow):
            raise DeclarationError(
                f"union takes streams, not {each!r}",
                hint="of what aggregate returned, take the changes()",
                declared=place,
            )
    step = Union(tuple(each.operator for each in streams), place)
    return after(streams[0].graph, step)
