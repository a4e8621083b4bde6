"""Declares watermarks and windows of event time, and the aggregates over windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from atoll.aggregates.base import Aggregator
from atoll.aggregates.count import EVERY_ROW
from atoll.dataflow import operators as op
from atoll.dataflow.clocks import clock_of, upstream
from atoll.dataflow.declared import PStateDeclaration, Target
from atoll.dataflow.grouped import IN_WINDOWS, check_aggregates
from atoll.dataflow.operators.columns import bare_column, named
from atoll.dataflow.operators.window import WINDOW_END, WINDOW_START
from atoll.dataflow.projection import Projection
from atoll.dataflow.state_steps import aggregate
from atoll.dataflow.stream import Aggregated, Stream
from atoll.dataflow.usercode import declared_at, placed
from atoll.durations import parse_millis
from atoll.errors import DeclarationError
from atoll.schema import Map

if TYPE_CHECKING:
    from collections.abc import Mapping

_Made = TypeVar("_Made")

__all__ = [
    "Sessions",
    "Windowed",
    "dropping",
    "session_window",
    "window",
    "with_processing_time",
    "with_watermark",
]


def with_watermark(stream: Stream, column: str, delay: object, place: str) -> Stream:
    """The rows with a watermark, and beside their way what moves it."""
    with placed(place):
        name = _column(column, "with_watermark")
        delay_ms = parse_millis(delay, "the delay of a watermark", least=0)
    step = op.Watermark((stream.operator,), place, _new_name(stream, name), name)
    marked = _then(stream, step)
    stream.graph.add(op.Observe((step,), place, step.name, step.title, name, delay_ms))
    return marked


def with_processing_time(stream: Stream, column: str, place: str) -> Stream:
    """The rows and when their microbatch was planned."""
    with placed(place):
        name = _column(column, "with_processing_time")
    return _then(stream, op.ProcessingTime((stream.operator,), place, name))


def window(  # noqa: PLR0913  # each says one thing of the windows
    stream: Stream,
    column: str,
    duration: object,
    slide: object,
    start: object,
    allowed_lateness: object,
    place: str,
) -> tuple[Windowed, Stream]:
    """The rows by window, and those that lie in no open one."""
    with placed(place):
        size_ms = parse_millis(duration, "the length of a window")
        slide_ms = size_ms if slide is None else parse_millis(slide, "the slide of a window")
        start_ms = parse_millis(start, "the start of windows", least=0)
    if slide_ms > size_ms:
        raise DeclarationError(
            f"windows of {size_ms} ms cannot slide by {slide_ms} ms: rows between would be lost",
            hint="choose a slide of at most the length",
            declared=place,
        )
    return _windows(stream, column, (size_ms, slide_ms, start_ms), allowed_lateness, place)


def session_window(
    stream: Stream, column: str, gap: object, allowed_lateness: object, place: str
) -> tuple[Sessions, Stream]:
    """The rows to be aggregated by session, and those that are too late for any."""
    with placed(place):
        gap_ms = parse_millis(gap, "the gap of a session")
    rows, late = _windows(stream, column, (gap_ms, 0, 0), allowed_lateness, place)
    return Sessions(rows), late


def dropping(made: _Made, late: Stream) -> _Made:
    """What was made, the rows counted that lie in no open window and that nobody takes."""
    graph, step = late.graph, late.operator
    taken = {each.name for each in graph.state_operators if isinstance(each, op.Observe)}
    assert isinstance(step, op.Window)
    name = _unique(f"{step.title}.{step.column}", taken)
    graph.add(op.Observe((step,), step.place, name, step.title))
    return made


class Windowed(Stream):
    """Rows with ``window_start`` and ``window_end``: a stream like others, and by window."""

    __slots__ = ()

    def aggregate_windows(self, *keys: str, **aggregates: Aggregator) -> Stream:
        """One row per combination of the keys and window, once the window has closed.

        The keys' columns, ``window_start``, ``window_end``, then the aggregates. A window closes
        when the watermark reaches its end; within the allowed lateness rows that come later
        change it, and its row comes out again.

        Raises:
            DeclarationError: When the rows have no watermark, or there is no aggregate.
        """
        return _aggregated(self, keys, aggregates, declared_at(1))


class Sessions:
    """Rows whose windows are still to be merged into sessions, by the keys of an aggregate."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Windowed) -> None:
        """Made by ``Stream.session_window``."""
        self._rows = rows

    def aggregate_windows(self, *keys: str, **aggregates: Aggregator) -> Stream:
        """One row per session of each combination of the keys, once the session has closed.

        As :meth:`Windowed.aggregate_windows`; ``window_end`` is the time of the session's last
        row and the gap.

        Raises:
            DeclarationError: When the rows have no watermark, or there is no aggregate.
        """
        return _aggregated(self._rows, keys, aggregates, declared_at(1))

    def aggregate(
        self, target: Target, aggregator: Aggregator | None = None, **fields: Aggregator
    ) -> Aggregated:
        """Fold the rows into a PState whose entries are sessions, by key, start and end.

        ``sessions["user"]["window_start"]["window_end"]``: readers see a session while it is
        still open. A row that makes it longer, or makes two sessions one, removes the entries
        that were, and writes the one that is.

        Raises:
            DeclarationError: When the target has no such keys, or the values cannot be merged.
        """
        return aggregate(self._rows, target, aggregator, fields, declared_at(1), by_session=True)


# Inside -------------------------------------------------------------------------------------------


def _windows(
    stream: Stream, column: str, shape: tuple[int, int, int], allowed_lateness: object, place: str
) -> tuple[Windowed, Stream]:
    word = "window" if shape[1] else "session_window"
    with placed(place):
        name = _column(column, word)
        late_ms = 0
        if allowed_lateness is not None:
            late_ms = parse_millis(allowed_lateness, "the allowed lateness", least=0)
    clock = clock_of(stream.operator)
    if not clock and allowed_lateness is not None:
        raise DeclarationError(
            f"{word} allows lateness, but its rows have no watermark, so none is ever late",
            hint='put with_watermark("at", "10 seconds") before it',
            declared=place,
        )
    common = ((stream.operator,), place, name, *shape, late_ms, clock or None)
    kept, late = op.Window(*common), op.Window(*common, late=True)
    stream.graph.add(kept)
    return Windowed(stream.graph, kept), _then(stream, late)


def _aggregated(
    rows: Windowed, keys: tuple[str, ...], aggregates: Mapping[str, Aggregator], place: str
) -> Stream:
    if not aggregates:
        raise DeclarationError(
            "aggregate_windows takes at least one aggregate by keyword",
            hint='aggregate_windows("user", n=agg.count())',
            declared=place,
        )
    check_aggregates(aggregates, IN_WINDOWS, place)
    windows = rows.operator
    assert isinstance(windows, op.Window)
    if windows.clock is None:
        raise DeclarationError(
            "aggregate_windows needs a watermark: without one no window ever closes",
            hint=f'put with_watermark("{windows.column}", "10 seconds") before {windows.title}',
            declared=place,
        )
    pairs = [named(key) for key in keys]
    names = tuple(name for _, name in pairs)
    taken = [*names, WINDOW_START, WINDOW_END, *aggregates]
    if len(set(taken)) < len(taken):
        raise DeclarationError(
            f"aggregate_windows would make two columns of one name: {', '.join(taken)}",
            hint='name the keys and aggregates apart: "upper(k) AS big"',
            declared=place,
        )
    stream: Stream = rows
    computed = tuple((name, text) for text, name in pairs if text.strip("`") != name)
    if computed:
        stream = _then(
            stream, op.WithColumns((stream.operator,), place, computed, "aggregate_windows")
        )
    projection = Projection()
    fields = tuple(
        op.AggregateField(
            name,
            each,
            tuple(None if text == EVERY_ROW else projection.column(text) for text in each.inputs),
        )
        for name, each in aggregates.items()
    )
    before = projection.before(stream, place, "aggregate_windows")
    made = ["windows"] if windows.slide_ms else ["session-ends", "sessions"]
    states = tuple(_private(stream, word, place) for word in made)
    step = op.WindowAgg((before,), place, names, fields, states, windows.clock, windows.lateness_ms)
    return _then(stream, step)


def _private(stream: Stream, word: str, place: str) -> PStateDeclaration:
    """A PState of the step's own; its schema is found when the types are known."""
    return stream.graph.add_private(word, Map(int, int), place)


def _new_name(stream: Stream, column: str) -> str:
    """Which watermark it is: kept in commits, so the same after a restart and an update."""
    origins = sorted(_origins(stream.operator))
    taken = {each.name for each in stream.graph.operators if isinstance(each, op.Watermark)}
    return _unique("+".join(origins) + "." + column, taken)


def _origins(operator: op.Operator) -> set[str]:
    """The depots and PStates that the rows come from, or the watermarks that they have."""
    found: set[str] = set()
    for each in upstream(operator):
        match each:
            case op.Source(depot=depot):
                found.add(depot.name)
            case op.Changes(pstate=pstate):
                found.add(pstate.name)
            case op.Watermark(name=name):
                found.add(name)
    return found


def _unique(name: str, taken: set[str]) -> str:
    number = 1
    unique = name
    while unique in taken:
        number += 1
        unique = f"{name}#{number}"
    return unique


def _column(column: object, word: str) -> str:
    name = bare_column(column) if isinstance(column, str) else None
    if name is None:
        raise DeclarationError(
            f"{word} takes the name of a column, not {column!r}",
            hint="compute it before: with_columns(at=...), or map",
        )
    return name


def _then(stream: Stream, operator: op.Operator) -> Stream:
    stream.graph.add(operator)
    return Stream(stream.graph, operator)
