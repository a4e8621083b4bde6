"""Which fragments of a topology are scheduled, as placement knows them. Pure."""

from __future__ import annotations

from collections import Counter
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
    seen: Counter[str] = Counter()
    rows_of: dict[Operator, frozenset[str]] = {}
    for step in graph.operators:  # inputs come before what they feed
        comes = [rows_of[each] for each in step.inputs]
        upstream = frozenset[str]().union(*comes) if comes else frozenset({SOURCE})
        rows_of[step] = upstream
        states = step.placed_by if isinstance(step, StateOperator) else ()
        if not isinstance(step, StateOperator) or not states:
            continue
        seen[step.fragment] += 1
        again = f" #{seen[step.fragment]}" if seen[step.fragment] > 1 else ""
        name = step.fragment + again
        rows_of[step] = frozenset({name})
        pstates = tuple(dict.fromkeys(each.name for each in states))
        specs.append(FragmentSpec(name, pstates, states[0].vnode_count, tuple(sorted(upstream))))
    return specs
