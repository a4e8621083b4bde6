"""Which fragments of a topology are scheduled, as placement knows them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from atoll.placement.fragments import FragmentSpec

if TYPE_CHECKING:
    from atoll.topology.graph import Graph

SOURCE = "source"
"""The name of the fragment that reads depots."""


def fragment_specs(graph: Graph) -> list[FragmentSpec]:
    """The source fragment, then one fragment per step that touches state, in declared order.

    ``append_to`` is no fragment of its own, nor is a look-up in a mirror: any actor takes its rows.
    """
    specs = [FragmentSpec(SOURCE)]
    seen: Counter[str] = Counter()
    for step in graph.state_operators:
        states = step.placed_by
        if not states:
            continue
        name = step.fragment
        seen[name] += 1
        again = f" #{seen[name]}" if seen[name] > 1 else ""
        names = tuple(dict.fromkeys(each.name for each in states))
        specs.append(FragmentSpec(name + again, names, states[0].vnode_count))
    return specs
