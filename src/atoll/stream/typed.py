"""Streams of objects: which class the rows of a stream are of, and functions that see them so.

A depot declared with a class gives a stream of its objects, and so does a Python step whose
``emits=`` is one. Steps that keep rows as they are keep the class; behind any other the rows are
plain :class:`~atoll.topology.rows.Row` objects again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from atoll.literals import Literal, expression
from atoll.objects import builder
from atoll.topology.sources import Source
from atoll.topology.usercode import check_function, placed

if TYPE_CHECKING:
    from atoll.topology.flow import Flow
    from atoll.topology.graph import Graph
    from atoll.topology.operator import Operator


def row_class(graph: Graph, operator: Operator) -> type | None:
    """The class of the rows behind an operator; None when they are of none."""
    if isinstance(operator, Source):
        return operator.depot.row_class
    if operator.keeps_rows:
        found = {row_class(graph, each) for each in operator.inputs}
        return found.pop() if len(found) == 1 else None
    return graph.row_classes.get(operator)


def of_rows(flow: Flow, function: Callable[..., Any], word: str, place: str) -> Callable[..., Any]:
    """A user's function of one row, to be called with plain rows; it sees objects of their class.

    Raises:
        DeclarationError: When it is no function of one argument.
    """
    check_function(function, 1, word, place)
    return seeing_objects(flow, function)


def of_condition(flow: Flow, given: str | Callable[..., Any], word: str, place: str) -> Any:
    """A condition: an expression as it is, a function as :func:`of_rows` gives it."""
    return given if isinstance(given, str) else of_rows(flow, given, word, place)


def seeing_objects(flow: Flow, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with an object of the rows' class first, where they are of one."""
    kind = row_class(flow.graph, flow.operator)
    if kind is None or not callable(function):
        return function
    make = builder(kind)

    @functools.wraps(function)
    def seeing(row: Any, *others: Any) -> Any:
        return function(make(row.asdict()), *others)

    return seeing


def giving(flow: Flow, emits: object) -> Flow:
    """The rows after a step, of objects where ``emits`` is a class."""
    if isinstance(emits, type):
        flow.graph.row_classes[flow.operator] = emits
    return flow


def named_texts(
    expressions: Mapping[str, str | Literal], place: str
) -> tuple[tuple[str, str], ...]:
    """Named expressions as texts, also where a value stands for itself.

    Raises:
        DeclarationError: When one is neither.
    """
    with placed(place):
        return tuple((name, expression(each)) for name, each in expressions.items())
