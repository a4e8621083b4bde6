"""Declares joins of rows of different microbatches, and checks them on their line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.schema import Map
from atoll.steps.changing_join.build import (
    check_bounds,
    joint_clock,
    meanings,
    sides,
    within_of,
)
from atoll.steps.changing_join.declare import ChangingJoin
from atoll.steps.changing_join.signed import changing
from atoll.steps.columns.join import JOINS
from atoll.steps.columns.joins import columns_of
from atoll.steps.incremental_join.declare import IncrementalJoin, JoinSide
from atoll.topology.clocks import origins_of
from atoll.topology.flow import Flow, after
from atoll.topology.kept.hidden import Hidden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.steps.incremental_join.declare import Side
_COLUMN = r"(left|right)\s*\.\s*(`[^`]+`|[A-Za-z_][A-Za-z_0-9]*)"
_SIDES: dict[object, Side] = {"left": "left", "right": "right"}
_EQUALITY = re.compile(rf"\s*{_COLUMN}\s*==?\s*{_COLUMN}\s*\Z", re.IGNORECASE)


def join(  # noqa: PLR0913  # what the user said, and where
    stream: Flow,
    other: object,
    on: str | Sequence[str],
    how: str,
    unique: str | None,
    within: object,
    at: object,
    name: str | None,
    place: str,
) -> Flow:
    """Add an :class:`~atoll.steps.incremental_join.declare.IncrementalJoin`.

    Or, where rows of the result change or time bounds it, a
    :class:`~atoll.steps.changing_join.declare.ChangingJoin`.
    """
    if not isinstance(other, Flow):
        raise DeclarationError(
            f"incremental_join takes a stream, not {other!r}",
            hint="to put a PState's value beside each row, use join(pstate[key]) or lookup; "
            "its changes() are a stream",
            declared=place,
        )
    kind = JOINS.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        raise DeclarationError(
            f"incremental_join how={how!r} is not known",
            hint="use inner, left, right, full, semi or anti",
            declared=place,
        )
    side = _SIDES.get(unique)
    if unique is not None and side is None:
        raise DeclarationError(
            f"incremental_join unique={unique!r} names no side",
            hint='unique="right" says that the other stream has one row of each key',
            declared=place,
        )
    names, conditions = columns_of(on, "incremental_join", place)
    pairs = tuple(_pair(each, place) for each in conditions)
    changes = changing(stream.operator), changing(other.operator)
    span = within_of(stream, other, within, at, place)
    more: tuple[tuple[str, str], ...] = ()
    if kind != "inner" or any(changes) or span is not None:
        check_bounds(side, changes, span, place)
        more = meanings(kind, changes, span, (stream, other))
    hidden = _hidden(stream, other, (names, pairs, side), (*more,), name, place)
    hidden = stream.graph.add_hidden(hidden, *[Map(int, int)] * len(hidden.endings))
    states = stream.graph.hidden_pstates(hidden)
    if not more:
        right = JoinSide((other.operator,), place)
        stream.graph.add(right)
        (state,) = states
        inputs = (stream.operator, right)
        return after(stream.graph, IncrementalJoin(inputs, place, names, pairs, side, state))
    one, right = sides(stream, other, changes, span, (name, place))
    clock = joint_clock(stream, other, span)
    keys = (names, pairs, kind, side)
    step = ChangingJoin((one, right), place, *keys, *changes, span, clock, states)
    return after(stream.graph, step)


def _hidden(
    stream: Flow,
    other: Flow,
    joined: tuple[tuple[str, ...], tuple[tuple[str, str], ...], Side | None],
    more: tuple[tuple[str, str], ...],
    name: str | None,
    place: str,
) -> Hidden:
    """What is kept: the rows of both sides by their keys."""
    names, pairs, side = joined
    left, right = (tuple(each[i] for each in pairs) for i in (0, 1))
    origins = ["+".join(origins_of(each.operator)) for each in (stream, other)]
    ways = stream.graph.ways
    on = ", ".join((*names, *(f"left.{one} = right.{two}" for one, two in pairs)))
    return Hidden(
        "joined",
        stream.graph.topology,
        tuple(origins),
        (
            ("keys on the left", ", ".join((*names, *left))),
            ("keys on the right", ", ".join((*names, *right))),
            ("unique side", side or "none"),
            *more,
        ),
        f"{ways[stream.operator]} {ways[other.operator]}",
        f"incremental_join of {origins[0]} and {origins[1]} on {on}",
        name=name,
        place=place,
        endings=("", "-times") if "within" in dict(more) else ("",),
        naming='give it a name: incremental_join(other, on="id", name="bids")',
    )


def _pair(condition: str, place: str) -> tuple[str, str]:
    """The columns of the left and the right side that a condition holds equal."""
    found = _EQUALITY.match(condition)
    if found is not None:
        sides = {
            found[1].lower(): found[2].strip("`"),
            found[3].lower(): found[4].strip("`"),
        }
        if len(sides) == 2:  # noqa: PLR2004  # both
            return sides["left"], sides["right"]
    raise DeclarationError(
        f"incremental_join on {condition!r} is no equality of a column of each side",
        hint='write "left.auction = right.id"; compute columns before, and put any other '
        "condition into where(...) behind the join",
        declared=place,
    )
