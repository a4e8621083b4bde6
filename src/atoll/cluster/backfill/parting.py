"""Which steps fill new PStates, and which are the topology without them. Pure.

While PStates are filled the topology is two: one of the steps that lead to them, which reads what
is past, and one of all others, which goes on. Steps that keep nothing may lead to both; they are
in both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from atoll.topology.operator import Operator, StateOperator
from atoll.topology.sources import Source, Tick

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from atoll.topology.graph import Graph


def parted(graph: Graph, filled: Collection[str], name: str) -> tuple[Graph, Graph]:
    """The topology without the steps that fill, and those steps as a topology of their own.

    Args:
        graph: The topology.
        filled: The PStates to fill that users declared.
        name: What the second one is called.
    """
    fills, rest = _both(graph, filled)
    return _only(graph, rest, graph.topology), _only(graph, fills, name)


def obstacles(
    graph: Graph, filled: Collection[str], stored: Collection[str], starts: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """What keeps PStates from being filled, in words, and what to do.

    Args:
        graph: The topology.
        filled: The PStates to fill that users declared.
        stored: The PStates that the topology has already, hidden ones among them.
        starts: The depots that it has read.
    """
    fills, rest = _both(graph, filled)
    for step in graph.operators:
        if step in fills:
            yield from _against(step, filled, stored, shared=step in rest)
            if isinstance(step, Source) and step.depot.name not in starts:
                yield (
                    f"it reads depot {step.depot.name!r}, which the topology has not read yet",
                    "leave backfill= out: start_from=start.beginning() reads it from its beginning",
                )
        if isinstance(step, StateOperator) and step in rest and step not in fills:
            follows = step.follows
            if follows is not None and follows.name in filled:
                yield (
                    f"{step.caption} at {step.place} follows its changes, and is not filled",
                    "fill what that step writes as well, or add the step in a later version",
                )
    read = {each.depot.name for each in rest if isinstance(each, Source)}
    for depot in sorted({s.depot.name for s in fills if isinstance(s, Source)} - read):
        if depot in starts:
            yield (
                f"nothing else in the topology reads depot {depot!r} any more",
                "keep a step that reads it, or take that step out in a later version",
            )


def _against(
    step: Operator,
    filled: Collection[str],
    stored: Collection[str],
    *,
    shared: bool,
) -> Iterator[tuple[str, str]]:
    """What of one step that fills cannot be done for the past."""
    if isinstance(step, Tick):
        yield f"{step.title} has no past", "let what is filled come from depots alone"
    strange = [p.name for p in step.reads if p.name not in filled]
    follows = step.follows if isinstance(step, StateOperator) else None
    if follows is not None and follows.name not in filled:
        strange.append(follows.name)
    if step.asks is not None:
        strange.append(f"query {step.asks}")
    for name in strange:
        yield (
            f"{step.caption} at {step.place} reads {name}, whose past is not kept",
            "fill it without that step, or declare it without backfill=: then it begins empty",
        )
    if not isinstance(step, StateOperator):
        return
    leaves = step.appends_to is not None or step.hands_out is not None
    if leaves or (shared and step.writes):
        yield (
            f"{step.caption} at {step.place} also leads to what is there already",
            "let only steps of its own, and such that keep nothing, lead to what is filled",
        )
    for each in step.writes:
        if each.hidden is not None and each.name in stored:
            yield (
                f"{step.caption} at {step.place} keeps {each.hidden.text}, which is there already",
                "give the step that fills a name of its own",
            )


def _both(graph: Graph, filled: Collection[str]) -> tuple[set[Operator], set[Operator]]:
    """The steps that fill, and those of the topology without them; some are in both."""
    fills = _leading_to(
        each for each in graph.state_operators if any(p.name in filled for p in each.writes)
    )
    rest = _leading_to(
        each
        for each in graph.state_operators
        if each.appends_to is not None
        or each.hands_out is not None
        or any(p.hidden is None and p.name not in filled for p in each.writes)
    )
    only = fills - rest
    for step in graph.operators:  # that lead to no state, such as those that watch event time
        if step not in fills | rest:
            before = _leading_to(step.inputs)
            if before <= fills:
                fills.add(step)
            if only.isdisjoint(before):
                rest |= {step, *before}
    return fills, rest


def _leading_to(ends: Iterable[Operator]) -> set[Operator]:
    """These steps and all that are before them."""
    found: set[Operator] = set()
    waiting = list(ends)
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting.extend(step.inputs)
    return found


def _only(graph: Graph, steps: set[Operator], name: str) -> Graph:
    """The graph of some of its steps."""
    made = copy.copy(graph)
    made.topology = name
    made.operators = [each for each in graph.operators if each in steps]
    used = {p.name for each in made.state_operators for p in (*each.writes, *each.reads)}
    made.pstates = {n: each for n, each in graph.pstates.items() if n in used}
    return made
