"""Which fragments of a topology are scheduled, as placement knows them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from atoll.dataflow import operators as op
from atoll.placement.fragments import FragmentSpec

if TYPE_CHECKING:
    from atoll.dataflow.declared import PStateDeclaration
    from atoll.dataflow.graph import Graph

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


def _states(step: op.StateOperator) -> list[PStateDeclaration]:
    match step:
        case op.Aggregate(target=target) | op.Lookup(target=target):
            return [] if target.pstate.mirrored else [target.pstate]
        case op.Changes(pstate=pstate):
            return [pstate]
        case op.Process() | op.WindowAgg() | op.FirstSeen() | op.IncrementalJoin():
            return list(step.writes)
    return []


def _word(step: op.StateOperator, states: list[PStateDeclaration]) -> str:
    if isinstance(step, op.Process):
        return getattr(step.function, "__name__", "function")
    return states[0].name
