"""What a caller gives a query, in the types of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atoll.errors import AtollError, UsageError
from atoll.objects import plain
from atoll.pstate.navigate.fit_value import fit_value
from atoll.schema import List, Node, Scalar, Struct

_INT_BITS = 63


def fit_arguments(
    query: str, parameters: Mapping[str, Node], given: Mapping[str, Any], *, outside: bool
) -> dict[str, Any]:
    """The arguments, in the order and the types of the parameters.

    Args:
        query: The query's name.
        parameters: What it takes.
        given: What came.
        outside: Whether it came as JSON, so that texts may stand for other types.

    Raises:
        UsageError: When one is missing, unknown, or of another type; the message names it.
    """
    takes = ", ".join(parameters) or "no arguments"
    for name in given:
        if name not in parameters:
            raise UsageError(
                f"query {query!r} has no parameter {name!r}", hint=f"it takes {takes}", query=query
            )
    fitted = {}
    for name, node in parameters.items():
        if name not in given:
            raise UsageError(
                f"query {query!r} needs the argument {name!r}",
                hint=f"it takes {takes}",
                query=query,
            )
        try:
            fitted[name] = _fit(plain(given[name]), node, outside=outside)
        except (AtollError, TypeError, ValueError) as error:
            reason = error.message if isinstance(error, AtollError) else str(error)
            raise UsageError(
                f"the argument {name!r} of query {query!r} does not fit: {reason}",
                hint=getattr(error, "hint", None) or "see the query's parameters",
                query=query,
                argument=name,
            ) from None
    return fitted


def _fit(value: Any, node: Node, *, outside: bool) -> Any:
    if isinstance(node, Scalar):
        if value is None and node.optional:
            return None
        fitted = fit_value(value, node, outside)
        if node.kind == "int" and fitted.bit_length() > _INT_BITS:
            raise ValueError(f"{value} has more than 64 bits")
        return fitted
    if isinstance(node, List):
        if not isinstance(value, list | tuple):
            raise TypeError(f"{value!r} is no list")
        return [_fit(each, node.item, outside=outside) for each in value]
    if isinstance(node, Struct):
        if not isinstance(value, Mapping) or set(value) != set(node.names()):
            raise TypeError(f"{value!r} is no struct of {', '.join(node.names())}")
        return {name: _fit(value[name], child, outside=outside) for name, child in node.fields}
    raise AssertionError(f"{node} is refused when the query is declared")
