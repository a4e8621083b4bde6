"""Branches and loops: conditions that send rows one way or another, or round again.

A loop is unrolled while it is declared: its body is called once for each round, and adds its
steps each time. So a body may hold whatever a topology may, exchanges and state steps too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from atoll.errors import DeclarationError, UserCodeError
from atoll.steps.columns.union import Union
from atoll.steps.columns.where import Where
from atoll.steps.materialize.declare import Materialize
from atoll.steps.rows.branched import Chosen
from atoll.steps.rows.keep import Keep
from atoll.steps.rows.numbered import NUMBER, Numbered
from atoll.topology.flow import Flow, after
from atoll.topology.operator import ColumnOperator
from atoll.topology.usercode import check_function

if TYPE_CHECKING:
    from atoll.topology.rows import Row

Condition = str | Callable[["Row"], Any]
"""A Spark SQL expression over a row, or a Python function of it."""

LOOP_ROUNDS_MAX = 100
"""Each round is a part of the plan of every microbatch."""


LOOP_ROUNDS_PER_JOB = 4
"""Of rounds with column steps. Spark plans all that leads to a round anew for each later one, so
that rounds in one job cost the square of their number; those with Python functions alone do not.
"""


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


def loop(  # each says one thing of the loop
    stream: Flow,
    body: Callable[[Flow], Flow],
    until: Condition,
    at_most: int,
    left: Literal["error", "emit"],
    place: str,
) -> Flow:
    """The rows of which ``until`` holds before the first round or after one of ``at_most``."""
    check_function(body, 1, "loop", place)
    if type(at_most) is not int or not 1 <= at_most <= LOOP_ROUNDS_MAX:
        raise DeclarationError(
            f"loop at_most={at_most!r} cannot be",
            hint=f"say how often its body runs at most: 1 to {LOOP_ROUNDS_MAX}",
            declared=place,
        )
    if left not in ("error", "emit"):
        raise DeclarationError(
            f"loop left={left!r} is not known",
            hint='"error" fails the microbatch when rows are left after the last round, "emit" '
            "lets them go on",
            declared=place,
        )
    done = []
    rest = stream
    operators = stream.graph.operators
    before = len(operators)
    for rounds in range(at_most):
        columns = any(isinstance(each, ColumnOperator) for each in operators[before:])
        if columns and rounds and rounds % LOOP_ROUNDS_PER_JOB == 0:
            rest = after(stream.graph, Materialize((rest.operator,), place))
        ready, rest = branch(rest, (until,), place, "loop")
        done.append(ready)
        rest = _round(_body(stream, body, rest, rounds + 1), place)
    if left == "emit":
        done.append(rest)
    else:
        ready, rest = branch(rest, (until,), place, "loop")
        done += [ready, where(rest, _Left(at_most), place, "loop")]
    return after(stream.graph, Union(tuple(each.operator for each in done), place))


def _body(stream: Flow, body: Callable[[Flow], Flow], rest: Flow, number: int) -> object:
    """What the body makes of the rows in one round, which its hidden state belongs to."""
    graph = stream.graph
    outside, graph.loop_round = graph.loop_round, f"{graph.loop_round}{number}."
    try:
        return body(rest)
    finally:
        graph.loop_round = outside


def _round(made: object, place: str) -> Flow:
    if not isinstance(made, Flow):
        raise DeclarationError(
            f"the body of a loop returned {made!r}",
            hint="return a stream with the columns that it was given",
            declared=place,
        )
    return made


class _Left:
    """Raises for a row that is still there after the last round."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, _row: Row) -> bool:
        """Always raises."""
        raise UserCodeError(
            f"a row is left after {self.rounds} rounds of a loop",
            hint='raise at_most, mend the body, or let such rows go on: left="emit"',
        )
