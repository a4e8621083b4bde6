"""What some steps return that is no plain stream: grouped rows, windows, what was aggregated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.steps.aggregate.build import aggregate
from atoll.steps.changes.declare import changes_of
from atoll.steps.fold.build import aggregated
from atoll.steps.windows.build import aggregate_windows
from atoll.steps.windows.window import Window
from atoll.stream.missing import missing
from atoll.stream.stream import Stream, stream_of
from atoll.topology.expressions import bare_column
from atoll.topology.usercode import declared_at

if TYPE_CHECKING:
    from atoll.aggregates.base import Aggregator
    from atoll.topology.declared import Target
    from atoll.topology.graph import Graph


class Grouped:
    """The rows of one microbatch by key, to be aggregated."""

    __slots__ = ("keys", "stream")

    def __init__(self, stream: Stream, keys: tuple[str, ...]) -> None:
        """Made by ``Stream.group_by``."""
        self.stream = stream
        self.keys = keys

    def __repr__(self) -> str:
        """The keys: ``<group_by('k')>``."""
        return f"<group_by({', '.join(map(repr, self.keys))})>"

    if not TYPE_CHECKING:  # a type checker sees what there is

        def __getattr__(self, name: str) -> Any:
            """Only aggregates follow."""
            raise missing("what group_by returns", name, ["agg"])

    def agg(self, *expressions: str, **aggregates: Aggregator) -> Stream:
        """One row per combination of the keys: the keys' columns, then the aggregates.

        ``agg("sum(v) AS total", "count(1) AS n")`` takes Spark SQL's aggregates,
        ``agg(total=agg.sum("v"), n=agg.count())`` those of ``atoll.agg``.

        Raises:
            DeclarationError: When there is no aggregate, or both kinds.
        """
        place = declared_at(1)
        return stream_of(aggregated(self.stream, self.keys, expressions, aggregates, place))


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
        return stream_of(aggregate_windows(self, keys, aggregates, declared_at(1)))


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
        return stream_of(aggregate_windows(self._rows, keys, aggregates, declared_at(1)))

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
        windows = self._rows.operator
        assert isinstance(windows, Window), "sessions are windows"
        made = aggregate(
            self._rows, target, aggregator, fields, declared_at(1), gap_ms=windows.size_ms
        )
        return Aggregated(self._rows.graph, *made)


class Aggregated:
    """What ``aggregate`` returns: the place that was written, whose changes can be followed."""

    __slots__ = ("graph", "keys", "target")

    def __init__(self, graph: Graph, target: Target, keys: tuple[str, ...]) -> None:
        """Made by ``Stream.aggregate``; ``keys`` are the expressions of the entries' keys."""
        self.graph = graph
        self.target = target
        self.keys = keys

    def __repr__(self) -> str:
        """The place that was written: ``<aggregate into counts["k"]>``."""
        return f"<aggregate into {self.target.text}>"

    if not TYPE_CHECKING:  # a type checker sees what there is

        def __getattr__(self, name: str) -> Any:
            """Its rows have gone into the state; what goes on is the state's changes."""
            raise missing("what aggregate returns", name, dir(Stream), ".changes()")

    def changes(self) -> Stream:
        """The PState's changes, keys named as the expressions of the target where they can be."""
        names = tuple(name for name in map(bare_column, self.keys) if name is not None)
        if len(set(names)) < len(self.keys):
            names = ()
        changed = changes_of(self.graph, self.target.pstate, names, declared_at(1))
        return stream_of(changed)
