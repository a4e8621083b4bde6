"""Rows of two streams put side by side: ``orders.join(users, on="user_id", how="left")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.expressions import escaped, query, quoted
from atoll.topology.operator import ColumnOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.topology.querying.step import Done, InQuery

JOINS = {
    "inner": "inner",
    "left": "left",
    "left_outer": "left",
    "leftouter": "left",
    "right": "right",
    "right_outer": "right",
    "rightouter": "right",
    "full": "full",
    "outer": "full",
    "full_outer": "full",
    "fullouter": "full",
    "semi": "left_semi",
    "left_semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "left_anti": "left_anti",
    "leftanti": "left_anti",
}
"""Spark's words for how to join, and what each is the same as."""

_ONE_SIDED = frozenset({"left_semi", "left_anti"})


@dataclass(frozen=True, eq=False)
class Join(ColumnOperator):
    """Spark's join within one microbatch; it ends the append order of the rows.

    ``names`` are columns of both sides, which come out once and first; ``conditions`` are
    expressions over ``left.x`` and ``right.y``. Null equals nothing, as in SQL. It is built as
    one SQL text, because a condition over both sides needs no Spark to be declared that way.
    """

    makes_rows: ClassVar[bool] = True
    in_queries: ClassVar[bool] = True

    SIDES: ClassVar = ("left", "right")
    """What conditions call the two inputs."""

    names: tuple[str, ...]
    conditions: tuple[str, ...]
    how: str

    def in_query(self, query: InQuery) -> Done:
        """By columns of both sides, in the order of the left one."""
        from atoll.steps.columns.tables import join, joined_schema

        return joined_schema(self, *query.inputs), lambda sides, _: join(self, *sides)

    def apply(self, frames: Sequence[Any], parallelism: int) -> Any:
        """One exchange by the equal columns, or none where Spark sends a small side to all."""
        left, right = frames
        on = [f"`left`.{quoted(name)} = `right`.{quoted(name)}" for name in self.names]
        on += [f"({condition})" for condition in self.conditions]
        words = self.how.replace("_", " ")
        sides = f"{{left}} AS `left` {words} JOIN {{right}} AS `right` ON "
        wanted = self._columns(left.columns, right.columns)
        return query(wanted, sides, escaped(" AND ".join(on)), left=left, right=right)

    def _columns(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """The shared columns, then the others of the left side, then those of the right."""
        others = [f"`left`.{quoted(name)}" for name in left if name not in self.names]
        if self.how in _ONE_SIDED:
            return [f"`left`.{quoted(name)}" for name in self.names] + others
        others += [f"`right`.{quoted(name)}" for name in right if name not in self.names]
        return [self._shared(quoted(name)) for name in self.names] + others

    def _shared(self, name: str) -> str:
        """A column of both sides, from the side that has it."""
        match self.how:
            case "full":
                return f"coalesce(`left`.{name}, `right`.{name}) AS {name}"
            case "right":
                return f"`right`.{name}"
        return f"`left`.{name}"
