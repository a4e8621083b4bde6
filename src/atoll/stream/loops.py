"""Loops: rows that go round until a condition holds of them, or as long as a body sends them on.

A loop is unrolled while it is declared: its body is called once for each round, and adds its
steps each time. So a body may hold whatever a topology may, exchanges and state steps too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from atoll.errors import DeclarationError, UserCodeError
from atoll.steps.columns.union import Union
from atoll.steps.materialize.declare import Materialize
from atoll.stream.control import Condition, branch, where
from atoll.topology.flow import Flow, after
from atoll.topology.operator import ColumnOperator
from atoll.topology.usercode import check_function

if TYPE_CHECKING:
    from atoll.topology.rows import Row

LOOP_ROUNDS_MAX = 100
"""Each round is a part of the plan of every microbatch."""


LOOP_ROUNDS_PER_JOB = 4
"""Of rounds with column steps. Spark plans all that leads to a round anew for each later one, so
that rounds in one job cost the square of their number; those with Python functions alone do not.
"""

Left = Literal["error", "emit", "drop"]
"""What becomes of rows that are left after the last round."""


@dataclass(frozen=True, eq=False)
class LoopEnd(Materialize):
    """Where rows would come that are left: nobody reads it, and a row there is an error."""

    drawn: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """As users write it."""
        return "loop"


def loop(  # each says one thing of the loop
    stream: Flow,
    body: Callable[[Flow], Any],
    until: Condition | None,
    at_most: int,
    left: Left,
    place: str,
) -> Flow:
    """What comes out of at most so many rounds.

    With ``until`` the rows of which it holds before the first round or after one; without it what
    the body gives beside the rows that go on.
    """
    check_function(body, 1, "loop", place)
    if type(at_most) is not int or not 1 <= at_most <= LOOP_ROUNDS_MAX:
        raise DeclarationError(
            f"loop at_most={at_most!r} cannot be",
            hint=f"say how often its body runs at most: 1 to {LOOP_ROUNDS_MAX}",
            declared=place,
        )
    if left not in ("error", "emit", "drop"):
        raise DeclarationError(
            f"loop left={left!r} is not known",
            hint='"error" fails the microbatch when rows are left after the last round, "emit" '
            'lets them go on, "drop" ends there',
            declared=place,
        )
    rounds = _Rounds(stream, body, place)
    if until is None:
        done = _emitting(rounds, at_most, left)
    else:
        done = _until(rounds, until, at_most, left)
    return after(stream.graph, Union(tuple(each.operator for each in done), place))


def _until(rounds: _Rounds, until: Condition, at_most: int, left: Left) -> list[Flow]:
    """The rows of which the condition holds, round by round."""
    done = []
    rest = rounds.stream
    for number in range(at_most):
        ready, rest = branch(rounds.before(rest, number), (until,), rounds.place, "loop")
        done.append(ready)
        rest = rounds.whole(rounds.made(rest, number))
    if left == "emit":
        return [*done, rest]
    ready, rest = branch(rest, (until,), rounds.place, "loop")
    done.append(ready)
    if left == "error":
        done.append(where(rest, _Fails(at_most), rounds.place, "loop"))
    return done


def _emitting(rounds: _Rounds, at_most: int, left: Left) -> list[Flow]:
    """What the body gives beside the rows that go on, round by round."""
    if left == "emit":
        raise DeclarationError(
            "a loop without until= emits what its body gives, not the rows that are left",
            hint='leave left= out, or left="drop" where the number of rounds is what ends it',
            declared=rounds.place,
        )
    done = []
    rest = rounds.stream
    for number in range(at_most):
        rest, out = rounds.pair(rounds.made(rounds.before(rest, number), number))
        done.append(out)
    if left == "error":
        graph = rounds.stream.graph
        failing = where(rest, _Fails(at_most), rounds.place, "loop")
        graph.always.append(LoopEnd((failing.operator,), rounds.place))
        graph.add(graph.always[-1])
    return done


class _Rounds:
    """The body of one loop, round by round."""

    def __init__(self, stream: Flow, body: Callable[[Flow], Any], place: str) -> None:
        self.stream = stream
        self.body = body
        self.place = place
        self.begun = len(stream.graph.operators)

    def before(self, rest: Flow, number: int) -> Flow:
        """The rows that go round, staged now and then where Spark computes them."""
        operators = self.stream.graph.operators[self.begun :]
        columns = any(isinstance(each, ColumnOperator) for each in operators)
        if columns and number and number % LOOP_ROUNDS_PER_JOB == 0:
            return after(self.stream.graph, Materialize((rest.operator,), self.place))
        return rest

    def made(self, rest: Flow, number: int) -> object:
        """What the body makes of the rows in a round, which its hidden state belongs to."""
        graph = self.stream.graph
        outside, graph.loop_round = graph.loop_round, f"{graph.loop_round}{number + 1}."
        try:
            return self.body(rest)
        finally:
            graph.loop_round = outside

    def whole(self, made: object) -> Flow:
        """The rows after a round."""
        if isinstance(made, Flow):
            return made
        hint = "return a stream with the columns that it was given"
        if isinstance(made, tuple):
            hint += ", or leave until= out to emit beside the rows that go on"
        raise DeclarationError(
            f"the body of a loop with until= returned {made!r}", hint=hint, declared=self.place
        )

    def pair(self, made: object) -> tuple[Flow, Flow]:
        """The rows that go on after a round, and what comes out."""
        match made:
            case (Flow() as rest, Flow() as out):
                return rest, out
        raise DeclarationError(
            f"the body of a loop without until= returned {made!r}",
            hint="return two streams, the rows that go on and those that come out; or give until=, "
            "which says of the rows when they come out",
            declared=self.place,
        )


class _Fails:
    """Raises for a row that is still there after the last round."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, _row: Row) -> bool:
        """Always raises."""
        raise UserCodeError(
            f"a row is left after {self.rounds} rounds of a loop",
            hint='raise at_most, mend the body, or let such rows be: left="drop"',
        )
