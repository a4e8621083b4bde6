"""Query functions as a module declares them: steps from a caller's arguments to an answer.

A query is a stream of one row, its arguments. Its steps are those of topologies that need no
Spark and write nothing, and two of its own: ``select_from`` reads along paths, ``query`` asks
another query, or itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from atoll.errors import DeclarationError
from atoll.queries.select_from import SelectFrom
from atoll.schema import List, Map, Node, Set, Struct
from atoll.topology.declared import PStateDeclaration
from atoll.topology.flow import Flow, after
from atoll.topology.graph import Graph, declared_pstate
from atoll.topology.operator import Operator
from atoll.topology.usercode import NO_COLUMN, check_columns, check_function, placed

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.path import Path

Many = Literal["one", "all"]


@dataclass(frozen=True)
class Returned:
    """What a query's caller gets."""

    operator: Operator
    column: str | None
    """The only column that counts; None for whole rows."""
    rows: Many
    place: str


class QueryGraph(Graph):
    """The steps of one query.

    Args:
        module: The module's name.
        name: The query's.
        parameters: What a caller gives, by name.
        pstates: Gives the module's PStates, and those that it mirrors.
        place: Where it was declared.
    """

    word = "query"

    def __init__(
        self,
        module: str,
        name: str,
        parameters: Mapping[str, Node],
        pstates: Callable[[], Mapping[str, PStateDeclaration]],
        place: str,
    ) -> None:
        """No steps yet."""
        super().__init__(module, name)
        self.name = name
        self.parameters = dict(parameters)
        self.place = place
        self.returned: Returned | None = None
        self._module_pstates = pstates

    def add(self, operator: Operator) -> None:
        """Append a step that a query may have.

        Raises:
            DeclarationError: For one that writes, or that only Spark can run.
        """
        if not operator.in_queries:
            raise DeclarationError(
                f"{operator.title} is no step of a query, which runs without Spark and writes "
                "nothing",
                hint=operator.instead,
                declared=operator.place,
            )
        super().add(operator)

    def check_own(self, pstate: object, step: str, place: str) -> None:
        """Refuse a PState of another module that is not mirrored, and a private one.

        Raises:
            DeclarationError: With the reason.
        """
        pstate = declared_pstate(pstate, step, place)
        if self._module_pstates().get(pstate.name) is not pstate:
            raise DeclarationError(
                f"{step} in query {self.name!r} reads the PState {pstate.name!r} of module "
                f"{pstate.module!r}",
                hint=f"a query reads the PStates of its own module, {self.module!r}, and those "
                "that this module mirrors",
                declared=place,
            )
        if pstate.private:
            raise DeclarationError(
                f"{step} in query {self.name!r} reads {pstate.name!r}, which is private to "
                f"topology {pstate.topology!r}",
                hint="declare the PState without private=True",
                declared=place,
            )

    def check_readable(self, pstate: object, step: str, place: str) -> None:
        """As :meth:`check_own`: a query only reads."""
        self.check_own(pstate, step, place)

    def check(self) -> None:
        """What can only be seen once all is declared.

        Raises:
            DeclarationError: When nothing is returned.
        """
        if self.returned is None:
            raise DeclarationError(
                f"query {self.name!r} returns nothing",
                hint='end it with returns("column"), returns() or returns(rows="all")',
                declared=self.place,
            )


def arguments_of(parameters: Mapping[str, Any], place: str) -> tuple[dict[str, Node], pa.Schema]:
    """The types of a query's parameters, and the columns of its first row."""
    import pyarrow as pa

    from atoll.arrow_types import value_type
    from atoll.codec.spellings import node_of

    with placed(place):
        nodes = {name: node_of(each) for name, each in parameters.items()}
        for name, node in nodes.items():
            keyed = _keyed(node)
            if keyed is not None:
                word = type(keyed).__name__.lower()
                how = "be" if keyed is node else "hold"
                raise DeclarationError(
                    f"parameter {name!r} cannot {how} a {word}",
                    hint=_INSTEAD_OF_KEYED[type(keyed)],
                )
        columns = [pa.field(name, value_type(node)) for name, node in nodes.items()]
        check_columns(nodes)
        schema = pa.schema(columns or [pa.field(NO_COLUMN, pa.bool_())])
    return nodes, schema


_INSTEAD_OF_KEYED: dict[type, str] = {
    Map: "take its entries as List(Struct(key=..., value=...))",
    Set: "take its elements as List(...)",
}


def _keyed(node: Node) -> Map | Set | None:
    """The map or set that it is, or that lies in it: arguments are rows, which hold neither."""
    if isinstance(node, Map | Set):
        return node
    if isinstance(node, List):
        return _keyed(node.item)
    members = [child for _, child in node.fields] if isinstance(node, Struct) else []
    return next((found for found in map(_keyed, members) if found is not None), None)


def select_from(
    stream: Flow,
    pstate: PStateDeclaration,
    function: Callable[[Any], Path],
    added: pa.Schema,
    place: str,
) -> Flow:
    """Add a :class:`~atoll.queries.select_from.SelectFrom`."""
    _only_in_queries(stream, "select_from", place)
    check_function(function, 1, "select_from", place)
    if not isinstance(pstate, PStateDeclaration):
        raise DeclarationError(
            f"select_from reads a PState, not {pstate!r}",
            hint="the path goes into the function: select_from(users, lambda row: path.key(row.u))",
            declared=place,
        )
    stream.graph.check_own(pstate, "select_from", place)
    return after(stream.graph, SelectFrom((stream.operator,), place, pstate, function, added))


def returns(stream: Flow, column: str | None, rows: Many, place: str) -> None:
    """Say what the caller gets."""
    _only_in_queries(stream, "returns", place)
    graph = stream.graph
    assert isinstance(graph, QueryGraph)
    if graph.returned is not None:
        raise DeclarationError(
            f"query {graph.name!r} returns twice",
            hint=f"it does at {graph.returned.place}; bring both together with union or join",
            declared=place,
        )
    if rows not in ("one", "all"):
        raise DeclarationError(
            f"returns rows={rows!r} is not known",
            hint='"one": a value or a row; "all": a list of them',
            declared=place,
        )
    graph.returned = Returned(stream.operator, column, rows, place)


def mirrors_read(queries: Iterable[QueryGraph]) -> set[str]:
    """The PStates of other modules that queries read, by ``module.name``."""
    steps = (step for query in queries for step in query.operators)
    return {pstate.name for step in steps for pstate in step.reads if pstate.mirrored}


def _only_in_queries(stream: Flow, step: str, place: str) -> None:
    if not isinstance(stream.graph, QueryGraph):
        raise DeclarationError(
            f"{step} is a step of queries, and this is topology {stream.graph.topology!r}",
            hint="begin with module.query(...); a topology reads state with lookup or process",
            declared=place,
        )
