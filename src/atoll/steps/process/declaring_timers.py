"""Declares the timers of a ``process`` step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from atoll.errors import DeclarationError
from atoll.schema import Map, Set
from atoll.topology.clocks import clock_of, watermarks_of
from atoll.topology.kept.hidden import Hidden
from atoll.topology.usercode import check_function

if TYPE_CHECKING:
    from atoll.steps.process.declare import Process
    from atoll.topology.flow import Flow


def with_timers(
    stream: Flow, step: Process, on_timer: Callable[..., Any], by: str, name: str | None
) -> Process:
    """The step with timers by processing or event time.

    Raises:
        DeclarationError: When it has no key, its rows have no watermark to go by, or the function
            cannot be called.
    """
    names = ", ".join(["timer", *(state.name for state in step.states), "timers"])
    hint = f"write it as on_timer({names})"
    check_function(on_timer, 2 + len(step.states), "on_timer", step.place, hint)
    if by not in ("processing", "event"):
        raise DeclarationError(
            f"timers={by!r} is not known",
            hint='timers go by "processing" time, the clock, or by "event" time, a watermark',
            declared=step.place,
        )
    if step.key is None or step.route != "key":
        raise DeclarationError(
            "timers belong to a key, and the step has none",
            hint='say which value of the row it is: key="user_id"',
            declared=step.place,
        )
    clock = clock_of(stream.operator) if by == "event" else ()
    if by == "event" and not clock:
        raise DeclarationError(
            "timers by event time need a watermark, which the rows do not have",
            hint='put with_watermark("at", "10 seconds") before the step',
            declared=step.place,
        )
    node = step.keyed_state.node
    assert isinstance(node, Map | Set), "states of a step with a key have that key"
    kind = node.key if isinstance(node, Map) else node.item
    hidden = _hidden(stream, step, by, name)
    hidden = stream.graph.add_hidden(hidden, Map(int, Map(kind, bytes)))
    (store,) = stream.graph.hidden_pstates(hidden)
    return replace(step, on_timer=on_timer, clock=clock, timers=store)


def _hidden(stream: Flow, step: Process, by: str, name: str | None) -> Hidden:
    """What is kept: what is due when, by key."""
    states = tuple(each.name for each in step.states)
    time = "the clock" if by == "processing" else watermarks_of(stream.operator)
    function = getattr(step.function, "__name__", "a function")
    return Hidden(
        "timers",
        stream.graph.topology,
        states,
        (("time", time),),
        stream.graph.ways[stream.operator] + function,
        f"timers of process({function}) on {', '.join(states)}",
        states,
        name,
        step.place,
        naming='give it a name: process(..., on_timer=..., name="reminders")',
    )
