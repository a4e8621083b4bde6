"""The expressions of a column step, and how a row is told on which one of them fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atoll.errors import DataError
from atoll.steps.columns.with_columns import WithColumns
from atoll.topology.expressions import is_computed
from atoll.topology.operator import Operator

EXPRESSION_HINT = (
    "mend the expression or filter such rows out, deploy again and resume the topology"
)

_VALUE_TEXT_MAX = 100


@dataclass(frozen=True)
class Guard:
    """One expression of a step."""

    shown: str
    """As the user knows it: ``n = cast(s AS long)``."""
    columns: tuple[str, ...]
    """The columns that it is computed from."""


@dataclass(frozen=True)
class Guarded:
    """A step behind its guard, as tasks name it."""

    title: str
    place: str
    guards: tuple[Guard, ...]

    @property
    def columns(self) -> list[str]:
        """What the expressions are computed from."""
        return list(dict.fromkeys(name for each in self.guards for name in each.columns))

    def error(self, place: int, row: Any, problem: str | None = None) -> DataError:
        """The error of a row on which the guard of that place fails.

        ``problem`` is what Spark says, where it was asked, or who computes in its place.
        """
        guard = self.guards[place]
        values = ", ".join(f"{name}={_shown(row[name])}" for name in guard.columns)
        said = "" if problem is None else f": {problem}"
        return DataError(f"{guard.shown} fails where {values}{said}", hint=EXPRESSION_HINT)


def expression_title(operator: Operator) -> str:
    """The step as its user calls it: keys and arguments of a state step are computed before it."""
    if isinstance(operator, WithColumns) and all(map(is_computed, dict(operator.expressions))):
        return "expression"
    return operator.title


def _shown(value: Any) -> str:
    return repr(value)[:_VALUE_TEXT_MAX]
