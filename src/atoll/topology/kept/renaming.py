"""The same topology with other names for its hidden state: those under which a root keeps it.

Hidden state is named where it is declared. A deployment finds out what of it a root has already,
and under which names; then the graph is made again with those, and everything after works by
name as ever. Pure.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

from atoll.topology.declared import PStateDeclaration
from atoll.topology.graph import Graph
from atoll.topology.kept.hidden import Hidden, in_pstates
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Mapping


def renamed(graph: Graph, stored: Mapping[Hidden, Hidden]) -> Graph:
    """The graph with each piece of hidden state called as the root calls it.

    Args:
        graph: As declared; it stays as it is.
        stored: For each of its hidden states the same with the label and names to use.
    """
    if all(each.stored == stored[each].stored for each in graph.hidden):
        return graph
    return _Renaming(graph, stored).made


class _Renaming:
    def __init__(self, graph: Graph, stored: Mapping[Hidden, Hidden]) -> None:
        self._stored = stored
        self._clocks = {
            old: new
            for each in graph.hidden
            if not in_pstates(each.kind)
            for old, new in zip(each.stored, stored[each].stored, strict=True)
        }
        self._pstates = {id(each): self._pstate(each) for each in graph.pstates.values()}
        self._operators: dict[Operator, Operator] = {}
        made = copy.copy(graph)
        made.hidden = [stored[each] for each in graph.hidden]
        made.pstates = {each.name: each for each in self._pstates.values()}
        for each in graph.operators:
            self._operators[each] = self._operator(each)
        made.operators = list(self._operators.values())
        made.ways = {new: graph.ways[old] for old, new in self._operators.items()}
        self.made = made

    def _pstate(self, declared: PStateDeclaration) -> PStateDeclaration:
        """Users' own stay the very same: queries and targets know them."""
        if declared.hidden is None:
            return declared
        hidden = self._stored[declared.hidden]
        name = hidden.stored[declared.hidden.stored.index(declared.name)]
        return dataclasses.replace(declared, name=name, hidden=hidden)

    def _operator(self, operator: Operator) -> Operator:
        changes = {}
        for field in dataclasses.fields(operator):
            value = getattr(operator, field.name)
            new = self._value(value)
            if operator.known_by_name and field.name == "name":
                new = self._clocks[value]
            elif field.name == "clock" and value is not None:
                new = tuple(sorted(self._clocks[name] for name in value))
            if new is not value:
                changes[field.name] = new
        return dataclasses.replace(operator, **changes)

    def _value(self, value: Any) -> Any:
        match value:
            case Operator():
                return self._operators[value]
            case PStateDeclaration():
                return self._pstates.get(id(value), value)
            case Hidden():
                return self._stored[value]
            case tuple():
                new = tuple(map(self._value, value))
                return value if all(a is b for a, b in zip(value, new, strict=True)) else new
        return value
