"""Declares watermarks and windows of event time, and the aggregates over windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.aggregates.accumulate import Accumulate
from atoll.durations import parse_millis
from atoll.errors import DeclarationError
from atoll.schema import Map
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.fold.build import as_columns, fields_of
from atoll.steps.observe.declare import Observe
from atoll.steps.projection import Projection
from atoll.steps.rows.of_microbatch import ProcessingTime
from atoll.steps.windows.declare import WindowAgg
from atoll.steps.windows.watermark import Watermark
from atoll.steps.windows.window import WINDOW_END, WINDOW_START, Window
from atoll.topology.clocks import clock_of, origins_of, sources_of, upstream, watermarks_of
from atoll.topology.expressions import bare_column, named
from atoll.topology.flow import Flow, after
from atoll.topology.kept.hidden import Hidden, told
from atoll.topology.operator import Operator
from atoll.topology.sources import Tick
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from atoll.aggregates.base import Aggregator

_HOW_TO_NAME = {
    True: 'window("at", "1 hour", name="hourly")',
    False: 'session_window("at", "1 hour", name="visits")',
}
"""Windows of a length, and sessions."""


def with_watermark(stream: Flow, column: str, delay: object, label: str | None, place: str) -> Flow:
    """The rows with a watermark, and beside their way what moves it."""
    with placed(place):
        name = time_column(column, "with_watermark")
        delay_ms = parse_millis(delay, "the delay of a watermark", least=0)
    hidden = _watermark(stream, name, delay_ms, label, place)
    hidden = stream.graph.add_hidden(hidden, of_rows=stream.operator)
    (known,) = hidden.stored
    step = Watermark((stream.operator,), place, known, name, hidden)
    marked = after(stream.graph, step)
    if not _observed(stream, hidden):
        stream.graph.add(Observe((step,), place, known, step.title, name, delay_ms, hidden))
    return marked


def with_processing_time(stream: Flow, column: str, place: str) -> Flow:
    """The rows and when their microbatch was planned."""
    with placed(place):
        name = time_column(column, "with_processing_time")
    return after(stream.graph, ProcessingTime((stream.operator,), place, name))


def window(  # each says one thing of the windows
    stream: Flow,
    column: str,
    lasting: tuple[object, object, object],
    allowed_lateness: object,
    label: str | None,
    place: str,
) -> tuple[Flow, Flow]:
    """The rows by window, and those that lie in no open one.

    ``lasting`` says how long windows are, how far apart they begin, and when the first one does.
    """
    duration, slide, start = lasting
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
    shape = (size_ms, slide_ms, start_ms)
    return _windows(stream, column, shape, allowed_lateness, label, place)


def session_window(  # each says one thing of the sessions
    stream: Flow,
    column: str,
    gap: object,
    allowed_lateness: object,
    label: str | None,
    place: str,
) -> tuple[Flow, Flow]:
    """The rows to be aggregated by session, and those that are too late for any."""
    with placed(place):
        gap_ms = parse_millis(gap, "the gap of a session")
    return _windows(stream, column, (gap_ms, 0, 0), allowed_lateness, label, place)


def count_late(late: Flow, column: str, label: str | None) -> None:
    """Count the rows after an operator: those that are too late for another, and nobody takes.

    Args:
        late: The rows.
        column: Their event time.
        label: What the user called what is kept of the others.
    """
    graph, step = late.graph, late.operator
    column = time_column(column, step.title)
    hidden = graph.add_hidden(
        Hidden(
            "late",
            graph.topology,
            (step.title, column),
            (),
            graph.ways[step],
            f"the count of rows that were too late for {step.title}({column})",
            name=label,
            place=step.place,
            naming='give it a name: window("at", "1 hour", name="hourly")',
        ),
        of_rows=step,
    )
    (known,) = hidden.stored
    if not _observed(late, hidden):
        graph.add(Observe((step,), step.place, known, step.title, hidden=hidden))


def _observed(stream: Flow, hidden: Hidden) -> bool:
    """Whether another step over the very same rows keeps it."""
    steps = stream.graph.state_operators
    return any(isinstance(each, Observe) and each.hidden is hidden for each in steps)


def _windows(
    stream: Flow,
    column: str,
    shape: tuple[int, int, int],
    allowed_lateness: object,
    label: str | None,
    place: str,
) -> tuple[Flow, Flow]:
    word = "window" if shape[1] else "session_window"
    with placed(place):
        name = time_column(column, word)
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
    kept, late = (Window(*common, late=each, label=label) for each in (False, True))
    stream.graph.add(kept)
    return Flow(stream.graph, kept), after(stream.graph, late)


def aggregate_windows(
    rows: Flow, keys: tuple[str, ...], aggregates: Mapping[str, Aggregator], place: str
) -> Flow:
    """One row per combination of the keys and window, once the window has closed."""
    if not aggregates:
        raise DeclarationError(
            "aggregate_windows takes at least one aggregate by keyword",
            hint='aggregate_windows("user", n=agg.count())',
            declared=place,
        )
    columns = as_columns(aggregates, place)
    windows = rows.operator
    assert isinstance(windows, Window)
    if windows.clock is None:
        raise DeclarationError(
            "aggregate_windows needs a watermark: without one no window ever closes",
            hint=f'put with_watermark("{windows.column}", "10 seconds") before {windows.title}',
            declared=place,
        )
    if not windows.slide_ms:
        _check_combining(aggregates, place)
    pairs = [named(key) for key in keys]
    names = tuple(name for _, name in pairs)
    taken = [*names, WINDOW_START, WINDOW_END, *aggregates]
    if len(set(taken)) < len(taken):
        raise DeclarationError(
            f"aggregate_windows would make two columns of one name: {', '.join(taken)}",
            hint='name the keys and aggregates apart: "upper(k) AS big"',
            declared=place,
        )
    stream = rows
    computed = tuple((name, text) for text, name in pairs if text.strip("`") != name)
    if computed:
        keyed = WithColumns((stream.operator,), place, computed, "aggregate_windows")
        stream = after(stream.graph, keyed)
    projection = Projection()
    fields = fields_of(columns, projection)
    before = projection.before(stream, place, "aggregate_windows")
    hidden = stream.graph.add_hidden(
        _hidden(rows, windows, pairs, aggregates, place), *[Map(int, int)] * 2
    )
    states = stream.graph.hidden_pstates(hidden)
    step = WindowAgg((before,), place, names, fields, states, windows.clock, windows.lateness_ms)
    return after(stream.graph, step)


def _check_combining(aggregates: Mapping[str, Aggregator], place: str) -> None:
    """Hold that the states of two sessions can become that of one."""
    for name, each in aggregates.items():
        if isinstance(each, Accumulate):
            raise DeclarationError(
                f"{name}=agg.{each} cannot be merged when two sessions become one",
                hint="use an aggregate that combines: agg.combine, agg.sum, agg.collect_list",
                declared=place,
            )


def _hidden(
    rows: Flow,
    windows: Window,
    keys: Sequence[tuple[str, str]],
    aggregates: Mapping[str, Aggregator],
    place: str,
) -> Hidden:
    """What is kept: the states of open windows, by their end."""
    by = ", ".join(text for text, _ in keys)
    shape = [("slide", windows.slide_ms), ("start", windows.start_ms)] if windows.slide_ms else []
    times = [
        ("length" if windows.slide_ms else "gap", windows.size_ms),
        *shape,
        ("allowed lateness", windows.lateness_ms),
    ]
    return Hidden(
        "windows" if windows.slide_ms else "sessions",
        rows.graph.topology,
        ("+".join(origins_of(rows.operator)), windows.column),
        (
            ("keys", by),
            ("aggregates", ", ".join(f"{n}={told(each)}" for n, each in aggregates.items())),
            *((word, f"{millis} ms") for word, millis in times),
            ("watermark", watermarks_of(rows.operator)),
        ),
        rows.graph.ways[rows.operator],
        f"{windows.title}({windows.column}) by {by or 'nothing'}",
        name=windows.label,
        place=place,
        endings=("",) if windows.slide_ms else ("-ends", ""),
        naming=f"give its windows a name: {_HOW_TO_NAME[bool(windows.slide_ms)]}",
    )


def _watermark(stream: Flow, column: str, delay_ms: int, label: str | None, place: str) -> Hidden:
    """What is kept: how far it is. A delay may change: a watermark never falls."""
    origins = "+".join(sorted(_origins(stream.operator)))
    return Hidden(
        "watermark",
        stream.graph.topology,
        (origins, column),
        (),
        f"{stream.graph.ways[stream.operator]} {delay_ms}",
        f"with_watermark({column}) of {origins}",
        name=label,
        place=place,
        naming='give it a name: with_watermark("at", "10 seconds", name="sensors")',
    )


def _origins(operator: Operator) -> set[str]:
    """The depots and PStates that the rows come from, or the watermarks that they have."""
    found: set[str] = set()
    for each in upstream(operator):
        if each.watermark is not None:
            found.add(each.watermark[1])
        elif not isinstance(each, Tick):
            found.update(sources_of(each))
    return found


def time_column(column: object, word: str) -> str:
    """The name of a column of event time.

    Raises:
        DeclarationError: When it is none.
    """
    name = bare_column(column) if isinstance(column, str) else None
    if name is None:
        raise DeclarationError(
            f"{word} takes the name of a column, not {column!r}",
            hint="compute it before: with_columns(at=...), or map",
        )
    return name
