"""Conditions that keep rows, or send them one way or another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from atoll.errors import DeclarationError
from atoll.steps.columns.where import Where
from atoll.steps.rows.branched import Chosen
from atoll.steps.rows.keep import Keep
from atoll.steps.rows.numbered import NUMBER, Numbered
from atoll.topology.flow import Flow, after
from atoll.topology.usercode import check_function

if TYPE_CHECKING:
    from atoll.topology.rows import Row

Condition = str | Callable[["Row"], Any]
"""A Spark SQL expression over a row, or a Python function of it."""


def where(stream: Flow, condition: Condition, place: str, word: str = "where") -> Flow:
    """Keep the rows of which the condition holds."""
    if isinstance(condition, str):
        return after(stream.graph, Where((stream.operator,), place, condition))
    check_function(condition, 1, word, place)
    return after(stream.graph, Keep((stream.operator,), place, condition, word))


def branch(
    stream: Flow, conditions: tuple[Condition, ...], place: str, word: str = "branch"
) -> tuple[Flow, ...]:
    """A stream per condition, each row in the first that holds, and one of all the others."""
    if not conditions:
        raise DeclarationError(
            "branch needs a condition",
            hint='large, small = stream.branch("cents >= 10000")',
            declared=place,
        )
    ways = []
    rest = stream
    for condition in conditions:
        yes, rest = _divided(rest, condition, place, word)
        ways.append(yes)
    return (*ways, rest)


def _divided(stream: Flow, condition: Condition, place: str, word: str) -> tuple[Flow, Flow]:
    """The rows of which the condition holds, and the others.

    A function's answers are a step of their own that both ways share, so that a row on which it
    raises is reported once.
    """
    if isinstance(condition, str):
        otherwise = f"NOT coalesce(({condition}), false)"
        return where(stream, condition, place), where(stream, otherwise, place)
    check_function(condition, 1, word, place)
    step = Numbered((stream.operator,), place, condition, word, truth=True)
    judged = after(stream.graph, step)
    yes, no = (Chosen((judged.operator,), place, NUMBER, number) for number in (1, 0))
    return after(judged.graph, yes), after(judged.graph, no)
