"""What a join whose result changes is made of: its sides, and how far apart in time they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.durations import parse_millis
from atoll.errors import DeclarationError
from atoll.steps.changing_join.declare import JoinInTime, Within
from atoll.steps.changing_join.signed import Signed
from atoll.steps.incremental_join.declare import JoinSide
from atoll.steps.windows.build import count_late, time_column
from atoll.topology.clocks import clock_of, watermarks_of
from atoll.topology.flow import Flow, after
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from atoll.steps.changing_join.signed import Changing
    from atoll.topology.operator import Operator
    from atoll.topology.times import Clock

    Both = tuple[Changing | None, Changing | None]

_TWO = 2


def within_of(stream: Flow, other: Flow, within: object, at: object, place: str) -> Within | None:
    """How far apart in time rows may be.

    Raises:
        DeclarationError: When it says nothing, or rows have no watermark to go by.
    """
    if within is None:
        if at is not None:
            raise DeclarationError(
                "incremental_join keeps rows for ever without within=, so at= says nothing",
                hint='say how far apart rows may be: within="10 minutes"; or leave at= out',
                declared=place,
            )
        return None
    with placed(place):
        lower, upper = _span(within)
        if lower > upper:
            raise DeclarationError(
                f"incremental_join within={within!r} holds of no two rows: the lower bound lies "
                "above the upper one",
                hint='within=("0 seconds", "10 minutes"): the lower one first',
            )
        if at is None:
            return Within(lower, upper)
        columns = (at, at) if isinstance(at, str) else at
        if not isinstance(columns, tuple | list) or len(columns) != _TWO:
            raise DeclarationError(
                f"incremental_join at={at!r} names no event time of each side",
                hint='at="at", or of the left side and the right one: at=("opened_at", "at")',
            )
        left, right = (time_column(each, "incremental_join") for each in columns)
    for flow, column in ((stream, left), (other, right)):
        if not clock_of(flow.operator):
            raise DeclarationError(
                "incremental_join by event time needs watermarks, and the rows with "
                f"{column!r} have none",
                hint=f'put with_watermark("{column}", "10 seconds") before it, or leave at= out',
                declared=place,
            )
    return Within(lower, upper, left, right)


def check_bounds(side: str | None, changes: Both, span: Within | None, place: str) -> None:
    """Refuse what cannot be told together.

    Raises:
        DeclarationError: With what to leave out.
    """
    names = ("left", "right")
    if span is not None and (any(changes) or side is not None):
        told, hint = "unique=", "leave unique= out"
        if side is None:
            told = "side of changes"
            hint = 'join the changes as events: select("id", "new") before the join'
        raise DeclarationError(
            f"incremental_join within= forgets rows, so it goes with no {told}",
            hint=hint,
            declared=place,
        )
    for name, each in zip(names, changes, strict=True):
        if each is not None and side == name:
            raise DeclarationError(
                f"incremental_join unique={side!r}: rows of the {side} side change, so which of "
                "a key was the first says nothing",
                hint="leave unique= out",
                declared=place,
            )


def meanings(
    how: str, changes: Both, span: Within | None, flows: tuple[Flow, Flow]
) -> tuple[tuple[str, str], ...]:
    """What tells apart what such joins keep."""
    sides = [name for name, each in zip(("left", "right"), changes, strict=True) if each]
    found = [("rows that come out", how), ("sides of changes", ", ".join(sides) or "none")]
    if span is not None:
        found.append(("within", f"{span.lower_ms} ms to {span.upper_ms} ms"))
        clock = "the clock"
        if span.left is not None:
            marks = " and ".join(watermarks_of(each.operator) for each in flows)
            clock = f"{span.left} and {span.right}, {marks}"
        found.append(("time", clock))
    return tuple(found)


def joint_clock(stream: Flow, other: Flow, span: Within | None) -> Clock:
    """What time goes by: the watermarks of both sides, of which the lowest counts; the clock."""
    if span is None or span.left is None:
        return ()
    return tuple(sorted({*clock_of(stream.operator), *clock_of(other.operator)}))


def sides(
    stream: Flow,
    other: Flow,
    changes: Both,
    span: Within | None,
    named: tuple[str | None, str],
) -> tuple[Operator, JoinSide]:
    """The steps that the join takes its rows from."""
    name, place = named
    clock = joint_clock(stream, other, span)
    columns = (None, None) if span is None else (span.left, span.right)
    found: list[Operator] = []
    for flow, each, column in zip((stream, other), changes, columns, strict=True):
        rows = flow
        if column is not None:
            late = JoinInTime((rows.operator,), place, column, clock, late=True)
            count_late(after(rows.graph, late), column, name)
            rows = after(rows.graph, JoinInTime((rows.operator,), place, column, clock))
        if each is not None:
            told = (each.keys, each.value, each.member, each.inside)
            rows = after(rows.graph, Signed((rows.operator,), place, *told))
        found.append(rows.operator)
    right = JoinSide((found[1],), place)
    stream.graph.add(right)
    return found[0], right


def _span(within: object) -> tuple[int, int]:
    """The least and the most by which the right row's time may be after the left one's."""
    if isinstance(within, tuple | list) and len(within) == _TWO:
        lower, upper = (_signed(each) for each in within)
        return lower, upper
    millis = parse_millis(within, "within=")
    return -millis, millis


def _signed(duration: object) -> int:
    """A length of time that may be negative: ``"-5 minutes"``."""
    import datetime as dt

    if isinstance(duration, str) and duration.strip().startswith("-"):
        return -parse_millis(duration.strip()[1:], "a bound of within=", least=0)
    if isinstance(duration, dt.timedelta) and duration < dt.timedelta():
        return -parse_millis(-duration, "a bound of within=", least=0)
    return parse_millis(duration, "a bound of within=", least=0)
