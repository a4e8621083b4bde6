"""The steps of a stream that ask queries, or are a query's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from atoll.queries.ask import ask
from atoll.queries.declare import returns, select_from
from atoll.topology.flow import Flow
from atoll.topology.usercode import declared_at, emitted_columns

if TYPE_CHECKING:
    from atoll.path import Path
    from atoll.topology.declared import Columns, PStateDeclaration

S = TypeVar("S")


class Asking(Flow, ABC, Generic[S]):
    """Rows beside which answers can be put; ``S`` is the stream of them."""

    __slots__ = ()

    @abstractmethod
    def _at(self, flow: Flow) -> S:
        """The stream at a point of the graph."""

    def select_from(
        self, pstate: PStateDeclaration, function: Callable[[Any], Path], *, emits: Columns
    ) -> S:
        """One row per value that a path leads to: the row's columns, then those of ``emits``.

        ``function`` gives the path for a row. In queries only.
        """
        place = declared_at(1)
        added = emitted_columns(emits, place)
        return self._at(select_from(self, pstate, function, added, place))

    def query(self, query: str, *, emits: Columns, **arguments: str) -> S:
        """Ask a query of the module for each row, and put the answer's columns beside it.

        ``arguments`` names for each parameter the column that gives it. In a topology the query
        reads that topology's own PStates as of the commit before the microbatch, and those of
        others as of the commit that the plan names.
        """
        place = declared_at(1)
        added = emitted_columns(emits, place)
        return self._at(ask(self, query, arguments, added, place))

    def returns(self, column: str | None = None, *, rows: Literal["one", "all"] = "one") -> None:
        """End a query: its caller gets the row (as a dict), or the value of one column of it.

        None when there is no row. With ``rows="all"`` a list of all of them. In queries only.
        """
        returns(self, column, rows, declared_at(1))
