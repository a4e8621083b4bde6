"""The steps of a stream that have to do with queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from atoll.queries import declare as queries
from atoll.stream.exchanging import Exchanging, S
from atoll.topology.usercode import declared_at, emitted_columns

if TYPE_CHECKING:
    from atoll.path import Path
    from atoll.topology.declared import Columns, PStateDeclaration
    from atoll.topology.flow import Flow


class Asking(Exchanging[S]):
    """Rows that read PStates and queries, or are an answer; ``S`` is the stream of them."""

    __slots__ = ()

    @abstractmethod
    def _at(self, flow: Flow) -> S:
        """The stream at a point of a graph."""

    def select_from(
        self, pstate: PStateDeclaration, function: Callable[[Any], Path], *, emits: Columns
    ) -> S:
        """One row per value that a path leads to: the row's columns, then those of ``emits``.

        ``function`` gives the path for a row. In queries only.
        """
        place = declared_at(1)
        added = emitted_columns(emits, place)
        return self._at(queries.select_from(self, pstate, function, added, place))

    def query(self, query: str, *, emits: Columns, **arguments: str) -> S:
        """Ask a query of the module for each row, and put the answer's columns beside it.

        ``arguments`` names for each parameter the column that gives it. In a topology the query
        reads that topology's own PStates as of the commit before the microbatch, and those of
        others as of the commit that the plan names.
        """
        place = declared_at(1)
        return self._at(queries.ask(self, query, arguments, emitted_columns(emits, place), place))

    def returns(self, column: str | None = None, *, rows: Literal["one", "all"] = "one") -> None:
        """End a query: its caller gets the row (as a dict), or the value of one column of it.

        None when there is no row. With ``rows="all"`` a list of all of them. In queries only.
        """
        queries.returns(self, column, rows, declared_at(1))
