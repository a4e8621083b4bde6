"""One row per element of an array or entry of a map: ``stream.explode("words", "word")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.errors import DeclarationError
from atoll.topology.expressions import bare_column, quoted
from atoll.topology.flow import Flow, after
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from atoll.topology.operator import BatchOperator


@dataclass(frozen=True, eq=False)
class Explode(ColumnOperator):
    """Spark's ``explode`` (or ``explode_outer``), the other columns kept.

    ``names`` is one name for an array's element, two for a map's key and value.
    """

    in_queries: ClassVar[bool] = True

    expression: str
    names: tuple[str, ...]
    outer: bool

    @property
    def texts(self) -> tuple[str, ...]:
        """What the user wrote."""
        return (self.expression,)

    def in_task(self, rows: pa.Schema, made: pa.Schema) -> BatchOperator:
        """Its expression, computed, and taken apart."""
        from atoll.steps.columns.computing import computing

        return computing(self, rows, made)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One narrow generator; a column of the same name gives way to the new one."""
        function = "explode_outer" if self.outer else "explode"
        kept = [quoted(name) for name in frames[0].columns if name not in self.names]
        names = ", ".join(quoted(name) for name in self.names)
        return frames[0].selectExpr(*kept, f"{function}({self.expression}) AS ({names})")


_ENTRY = ("key", "value")
"""What the entries of a map are taken apart into; an array has elements only."""


def _element_names(expression: str, names: tuple[str, ...], place: str) -> tuple[str, ...]:
    """The names of what ``explode`` makes: those given, or the column that it takes apart."""
    column = bare_column(expression)
    if len(names) > len(_ENTRY) or (not names and column is None):
        raise DeclarationError(
            f"explode of {expression} needs one name, or two for a map",
            hint='name the element: explode("split(tags, \',\')", "tag")',
            declared=place,
        )
    return names or (str(column),)


def explode(
    stream: Flow, expression: str, names: tuple[str, ...], place: str, *, outer: bool
) -> Flow:
    """A row per element; those without any stay with ``outer``."""
    found = _element_names(expression, names, place)
    return after(stream.graph, Explode((stream.operator,), place, expression, found, outer))
