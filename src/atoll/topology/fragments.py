"""Which fragments of a topology are scheduled, as placement knows them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from atoll.placement.fragments import FragmentSpec
from atoll.steps.aggregate.declare import Aggregate
from atoll.steps.changes.declare import Changes
from atoll.steps.distinct_count.declare import FirstSeen
from atoll.steps.incremental_join.declare import IncrementalJoin
from atoll.steps.lookup.declare import Lookup
from atoll.steps.process.declare import Process
from atoll.steps.windows.declare import WindowAgg
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.graph import Graph

__all__ = ["SOURCE", "fragment_specs"]

SOURCE = "source"
"""The name of the fragment that reads depots."""


def fragment_specs(graph: Graph) -> list[FragmentSpec]:
    """The source fragment, then one fragment per step that touches state, in declared order.

    ``append_to`` is no fragment of its own, nor is a look-up in a mirror: any actor takes its rows.
    """
    specs = [FragmentSpec(SOURCE)]
    seen: Counter[str] = Counter()
    for step in graph.state_operators:
        states = _states(step)
        if not states:
            continue
        name = f"{step.title} {_word(step, states)}"
        seen[name] += 1
        again = f" #{seen[name]}" if seen[name] > 1 else ""
        names = tuple(dict.fromkeys(each.name for each in states))
        specs.append(FragmentSpec(name + again, names, states[0].vnode_count))
    return specs


def _states(step: StateOperator) -> list[PStateDeclaration]:
    match step:
        case Aggregate(target=target) | Lookup(target=target):
            return [] if target.pstate.mirrored else [target.pstate]
        case Changes(pstate=pstate):
            return [pstate]
        case Process() | WindowAgg() | FirstSeen() | IncrementalJoin():
            return list(step.writes)
    return []


def _word(step: StateOperator, states: list[PStateDeclaration]) -> str:
    if isinstance(step, Process):
        return getattr(step.function, "__name__", "function")
    return states[0].name
