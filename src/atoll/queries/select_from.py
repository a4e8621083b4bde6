"""One row per value that a path leads to: ``q.select_from(followers, path_of, emits=...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.path import Path
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.querying.step import Done, InQuery
    from atoll.topology.rows import Row


@dataclass(frozen=True, eq=False)
class SelectFrom(StateOperator):
    """Reads a PState along the path that a function gives for each row; in queries only.

    Each value makes a row: the columns before, then those of ``added``. Of several columns the
    value must be a tuple, or a dict with their names.
    """

    in_queries: ClassVar[bool] = True

    pstate: PStateDeclaration
    function: Callable[[Row], Path]
    added: pa.Schema

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """Any number of rows per row."""
        return True

    @property
    def reads(self) -> tuple[PStateDeclaration, ...]:
        """The PState."""
        return (self.pstate,)

    def in_query(self, query: InQuery) -> Done:
        """Reads along the paths."""
        from atoll.queries.selecting import selecting

        emitted = pa.schema([*query.rows, *self.added])
        return emitted, selecting(self, query.specs[self.pstate.name], emitted)
