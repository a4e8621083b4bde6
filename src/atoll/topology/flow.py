"""A point in a graph from which rows go on: what streams are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.literals import shown
from atoll.topology.declared import PStateDeclaration, Target

if TYPE_CHECKING:
    from atoll.topology.graph import Graph
    from atoll.topology.operator import Operator


class Flow:
    """The rows after an operator of a graph."""

    __slots__ = ("graph", "operator")

    def __init__(self, graph: Graph, operator: Operator) -> None:
        """Streams come from ``Microbatch.source``, not from here."""
        self.graph = graph
        self.operator = operator


def after(graph: Graph, operator: Operator) -> Flow:
    """The rows after an operator, which is added to the graph.

    Raises:
        DeclarationError: When the graph cannot have it.
    """
    graph.add(operator)
    return Flow(graph, operator)


def own_target(flow: Flow, given: object, step: str, place: str) -> Target:
    """The place in a PState of the graph that was given: a target, or a whole PState.

    Raises:
        DeclarationError: When it is neither, another topology's, or an element of a set.
    """
    pstate = given.pstate if isinstance(given, Target) else given
    flow.graph.check_own(pstate, step, place)
    if isinstance(pstate, PStateDeclaration) and pstate.per_vnode:
        raise DeclarationError(
            f"{pstate.name} has a value in each vnode, which only functions write",
            hint=f'process(function, key="user_id", states=[users, {pstate.name}])',
            declared=place,
        )
    if isinstance(given, Target) and given.is_element:
        held = replace(given, parts=given.parts[:-1])
        element = shown(given.parts[-1].text)
        raise DeclarationError(
            f"{given.text} is an element of a set, which holds nothing to {step} into",
            hint=f"to add it: aggregate({held.text}, agg.collect_set({element})); "
            f'to see whether it is there: lookup({given.text}, "known")',
            declared=place,
        )
    if isinstance(given, Target) and given.is_as_of:
        held, time = replace(given, parts=given.parts[:-1]), shown(given.parts[-1].text)
        raise DeclarationError(
            f"{given.text} can only be read, and {step} writes",
            hint=f"write under the time itself: {held.text}[{time}]",
            declared=place,
        )
    return given if isinstance(given, Target) else Target(given, ())  # type: ignore[arg-type]


def target_to_read(flow: Flow, given: object, step: str, place: str) -> Target:
    """The same, where a mirror of another module's PState may stand too.

    Raises:
        DeclarationError: As :func:`own_target`.
    """
    pstate = given.pstate if isinstance(given, Target) else given
    flow.graph.check_readable(pstate, step, place)
    return given if isinstance(given, Target) else Target(pstate, ())  # type: ignore[arg-type]
