"""Which fragments of a topology are scheduled, as placement knows them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from atoll.placement.fragments import FragmentSpec
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.topology.graph import Graph
    from atoll.topology.operator import Operator

SOURCE = "source"
"""The name of the fragment that reads depots."""


def fragment_specs(graph: Graph) -> list[FragmentSpec]:
    """The source fragment, then one fragment per step that touches state, in declared order.

    ``append_to`` is no fragment of its own, nor is a look-up in a mirror: any actor takes its rows.
    """
    specs = [FragmentSpec(SOURCE)]
    names = fragment_names(graph.operators)
    rows_of: dict[Operator, frozenset[str]] = {}
    for step in graph.operators:  # inputs come before what they feed
        comes = [rows_of[each] for each in step.inputs]
        upstream = frozenset[str]().union(*comes) if comes else frozenset({SOURCE})
        rows_of[step] = upstream
        name = names.get(step)
        if not isinstance(step, StateOperator) or name is None:
            continue
        states = step.placed_by
        rows_of[step] = frozenset({name})
        pstates = tuple(dict.fromkeys(each.name for each in states))
        specs.append(FragmentSpec(name, pstates, states[0].vnode_count, tuple(sorted(upstream))))
    return specs


def fragment_names(operators: Iterable[Operator]) -> dict[Operator, str]:
    """The name of the fragment that ends in each step that touches state; given in their order."""
    seen: Counter[str] = Counter()
    names: dict[Operator, str] = {}
    for step in operators:
        if isinstance(step, StateOperator) and step.placed_by:
            seen[step.fragment] += 1
            again = f" #{seen[step.fragment]}" if seen[step.fragment] > 1 else ""
            names[step] = step.fragment + again
    return names
