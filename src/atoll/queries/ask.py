"""A query asked for each row: ``stream.query("fibonacci", emits="f long", n="n")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.declared import PStateDeclaration

__all__ = ["Ask"]


@dataclass(frozen=True, eq=False)
class Ask(StateOperator):
    """Puts the answer beside each row: a value, the columns of a row, or a row per row of it.

    In a topology it sees that topology's state as of the commit that the microbatch follows, and
    that of other topologies as of the commits that the plan names, in every attempt: what the
    microbatch itself writes is not seen.
    """

    query: str
    arguments: tuple[tuple[str, str], ...]
    """For each parameter of the query the column that gives it."""
    added: pa.Schema

    @property
    def title(self) -> str:
        """As users write it."""
        return "query"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Nothing."""
        return ()

    @property
    def emits(self) -> bool:
        """A row per row of the answer."""
        return True
