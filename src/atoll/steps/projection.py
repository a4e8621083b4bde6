"""The columns that steps need beside those of their rows, computed by one projection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from atoll.steps.columns.with_columns import WithColumns
from atoll.topology.expressions import bare_column
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    from atoll.topology.flow import Flow


class Projection:
    """Collects the expressions that steps need as columns."""

    def __init__(self) -> None:
        """Nothing is computed yet."""
        self.computed: dict[str, str] = {}

    @classmethod
    def of(cls, expressions: Iterable[str]) -> Projection:
        """One of these expressions, so that steps which share them share one pass over the rows."""
        projection = cls()
        for each in expressions:
            projection.column(each)
        return projection

    def column(self, expression: str) -> str:
        """The column that holds the expression's value: itself, or a new one."""
        bare = bare_column(expression)
        if bare is not None:
            return bare
        for name, known in self.computed.items():
            if known == expression:
                return name
        name = f"__e{len(self.computed)}"
        self.computed[name] = expression
        return name

    def before(self, stream: Flow, place: str, word: str) -> Operator:
        """The stream's operator, behind a projection when one is needed.

        Args:
            stream: Whose rows get the columns.
            place: Where the step that needs them was declared.
            word: What the user called that step.
        """
        if not self.computed:
            return stream.operator
        step = WithColumns((stream.operator,), place, tuple(self.computed.items()), word)
        stream.graph.add(step)
        return step
