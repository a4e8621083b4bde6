"""The fluent face of a topology: each method adds one operator and returns the stream after it.

Streams are cheap, immutable values. They hold no rows: a topology runs once its module is
deployed. Expressions are Spark SQL strings and need no running Spark to declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from atoll.steps.aggregate.build import aggregate
from atoll.steps.append_to.declare import append_to
from atoll.steps.columns.distinct import Distinct
from atoll.steps.columns.drop import Drop
from atoll.steps.columns.explode import explode
from atoll.steps.columns.select import Select
from atoll.steps.columns.transform import Transform
from atoll.steps.columns.union import union
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.deduplicate.declare import deduplicate
from atoll.steps.fold.build import aggregated
from atoll.steps.lookup.declare import lookup
from atoll.steps.materialize.declare import Materialize
from atoll.steps.process.declare import process, update
from atoll.steps.rows.flat_map import FlatMap
from atoll.steps.rows.map import Map
from atoll.steps.rows.map_async import map_async
from atoll.steps.rows.map_batches import MapBatches
from atoll.steps.windows import build as windows
from atoll.steps.write_to.declare import write_to
from atoll.stream import control
from atoll.stream.asking import Asking
from atoll.stream.controlling import Controlling
from atoll.stream.exchanging import Exchanging
from atoll.stream.joining import Joining
from atoll.stream.missing import missing
from atoll.stream.sequenced import Sequenced
from atoll.stream.typed import giving, named_texts, of_condition, of_rows, seeing_objects
from atoll.topology.declared import R, U
from atoll.topology.flow import Flow, after
from atoll.topology.usercode import check_function, declared_at, emitted_columns

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from atoll.aggregates.base import Aggregator
    from atoll.literals import Literal as Literals
    from atoll.path import Path
    from atoll.sinks.interface import Sink
    from atoll.stream.interim import Aggregated, Grouped, Windowed
    from atoll.topology.declared import Columns, DepotDeclaration, PStateDeclaration, Target
    from atoll.topology.operator import Operator

    Duration = str | dt.timedelta


class Stream(
    Exchanging["Stream[R]"],
    Asking["Stream[Any]"],
    Controlling["Stream[Any]"],
    Joining["Stream[Any]"],
    Sequenced["Stream[Any]"],
    Generic[R],
):
    """Rows of one microbatch on their way through a topology."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Which step it comes from: ``<stream of topology 'mb' after select, jobs.py:12>``."""
        graph, step = self.graph, self.operator
        return f"<stream of {graph.word} {graph.topology!r} after {step.title}, {step.place}>"

    if not TYPE_CHECKING:  # a type checker sees what there is

        def __getattr__(self, name: str) -> Any:
            """Name what there is, where something else was asked for."""
            raise missing("a stream", name, dir(type(self)))

    # Columns, by Spark ------------------------------------------------------------------------

    def select(self, *expressions: str) -> Stream:
        """Keep and compute columns: ``select("id", "price * 2 AS double_price")``."""
        return self._then(Select((self.operator,), declared_at(1), expressions))

    def with_columns(self, **expressions: str | Literals) -> Stream:
        """Add or replace columns: ``with_columns(minute="ts_millis div 60000", kind=lit("x"))``."""
        place = declared_at(1)
        return self._then(WithColumns((self.operator,), place, named_texts(expressions, place)))

    def drop(self, *columns: str) -> Stream:
        """Leave columns out: ``drop("body", "headers")``. Each must be there."""
        return self._then(Drop((self.operator,), declared_at(1), columns))

    def where(self, condition: str | Callable[[R], Any]) -> Stream[R]:
        """Keep the rows for which the condition, SQL or a Python function of a row, holds."""
        place = declared_at(1)
        asked = of_condition(self, condition, "where", place)
        return stream_of(control.where(self, asked, place))

    def explode(self, expression: str, *names: str, outer: bool = False) -> Stream:
        """One row per element of an array (one name) or entry of a map (two names).

        Without a name the element takes the place of the column that ``expression`` is.
        ``outer`` keeps rows whose collection is empty, with null.
        """
        return stream_of(explode(self, expression, names, declared_at(1), outer=outer))

    def union(self, *others: Stream) -> Stream:
        """Rows of all streams; columns are matched by name, duplicates stay."""
        return stream_of(union((self, *others), declared_at(1)))

    def transform(self, function: Callable[[Any], Any]) -> Stream:
        """Any DataFrame code: ``transform(lambda frame: frame.dropna())``.

        The function sees one microbatch's rows as a Spark DataFrame and returns another.
        """
        place = declared_at(1)
        check_function(function, 1, "transform", place)
        return self._then(Transform((self.operator,), place, function))

    # Rows and batches, by Python ----------------------------------------------------------------

    def map(self, function: Callable[[R], Any], *, emits: type[U] | Columns) -> Stream[U]:
        """One row out (a dict, a row, an object) for each row in; ``emits`` says its columns."""
        place = declared_at(1)
        calling = of_rows(self, function, "map", place)
        step = Map((self.operator,), place, calling, _beside(emits, place))
        return stream_of(giving(self._then(step), emits))

    def map_async(
        self,
        function: Callable[[R], Awaitable[Any]],
        *,
        emits: type[U] | Columns,
        at_once: int = 16,
        timeout: Duration = "30 seconds",
    ) -> Stream[U]:
        """As ``map``, awaiting an ``async`` function of each row; rows keep their order.

        The calls go to the outside at least once: an attempt that is repeated makes them again.

        Args:
            function: Gives a row out for a row in.
            emits: The columns that come out.
            at_once: How many calls may be under way in a task.
            timeout: How long one may take.
        """
        place = declared_at(1)
        calling = of_rows(self, function, "map_async", place)
        made = map_async(self, calling, _beside(emits, place), at_once, timeout, place)
        return stream_of(giving(made, emits))

    def flat_map(
        self, function: Callable[[R], Iterable[Any]], *, emits: type[U] | Columns
    ) -> Stream[U]:
        """Any number of rows out for each row in; ``emits`` says their columns."""
        place = declared_at(1)
        calling = of_rows(self, function, "flat_map", place)
        step = FlatMap((self.operator,), place, calling, _beside(emits, place))
        return stream_of(giving(self._then(step), emits))

    def map_batches(
        self,
        function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        *,
        emits: type[U] | Columns,
    ) -> Stream[U]:
        """Arrow batches in, Arrow batches out; the function is called once per task."""
        place = declared_at(1)
        check_function(function, 1, "map_batches", place)
        step = MapBatches((self.operator,), place, function, emitted_columns(emits, place))
        return stream_of(giving(self._then(step), emits))

    # Batch blocks -----------------------------------------------------------------------------

    def group_by(self, *keys: str) -> Grouped:
        """The rows by columns or expressions, for ``agg``: ``group_by("k", "v % 2 AS odd")``."""
        from atoll.stream.interim import Grouped

        return Grouped(self, keys)

    def agg(self, *expressions: str, **aggregates: Aggregator) -> Stream:
        """One row of all rows of the microbatch, also when there are none.

        ``agg("sum(v) AS total")`` by Spark SQL, or ``agg(total=agg.sum("v"))`` by Atoll.

        Raises:
            DeclarationError: When there is no aggregate, or both kinds.
        """
        return stream_of(aggregated(self, (), expressions, aggregates, declared_at(1)))

    def distinct(self, *expressions: str) -> Stream:
        """Each combination of the expressions (by default of all columns) once, nothing else."""
        return self._then(Distinct((self.operator,), declared_at(1), expressions))

    def deduplicate(
        self,
        key: str | Sequence[str],
        *,
        within: Duration | None = None,
        at: str | None = None,
        name: str | None = None,
    ) -> Stream[R]:
        """Drop rows whose key came through before, in this microbatch or an earlier one.

        Args:
            key: An expression over the row, or several; null is a value like others.
            within: How far apart rows of one key must be to pass; they never do when None.
            at: The event time by which that goes, of rows with a watermark; those that it has
                passed are dropped and counted. By the clock when None.
            name: What to call what is kept, where that of two steps would not be told apart.
        """
        return stream_of(deduplicate(self, key, within, at, name, declared_at(1)))

    def materialize(self) -> Stream[R]:
        """Compute the rows once in a microbatch, however many steps go on from here."""
        return self._then(Materialize((self.operator,), declared_at(1)))

    # Control ----------------------------------------------------------------------------------

    def branch(self, *conditions: str | Callable[[R], Any]) -> tuple[Stream[R], ...]:
        """A stream per condition, each row in the first that holds; last, all other rows.

        ``large, small = stream.branch("cents >= 10000")``. A null condition does not hold.
        """
        place = declared_at(1)
        asked = tuple(of_condition(self, each, "branch", place) for each in conditions)
        return tuple(map(stream_of, control.branch(self, asked, place)))

    # State ------------------------------------------------------------------------------------

    def aggregate(
        self,
        target: Target | PStateDeclaration,
        aggregator: Aggregator | None = None,
        **fields: Aggregator,
    ) -> Aggregated:
        """Fold the rows into a PState: one aggregate, or one per field of a struct.

        ``aggregate(totals["user"], agg.sum("price"))``, or
        ``aggregate(lines["author"], added=agg.sum("added"), deleted=agg.sum("deleted"))``.

        Raises:
            DeclarationError: When an aggregate does not fit what the PState holds there.
        """
        from atoll.stream.interim import Aggregated

        made = aggregate(self, target, aggregator, fields, declared_at(1))
        return Aggregated(self.graph, *made)

    def lookup(self, target: Target | PStateDeclaration, column: str) -> Stream:
        """Add a column with the PState's value for each row, null where there is none."""
        return stream_of(lookup(self, target, column, declared_at(1)))

    def process(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        function: Callable[..., Any],
        *,
        states: Sequence[PStateDeclaration],
        key: str | None = None,
        emits: type[U] | Columns | None = None,
        on_timer: Callable[..., Any] | None = None,
        timers: Literal["processing", "event"] = "processing",
        name: str | None = None,
    ) -> Stream[U]:
        """Call ``function(row, *handles)`` for each row on the actor that owns its key.

        Args:
            function: Reads and writes the states through the handles, in the order of
                ``states``; may yield rows (dicts) when ``emits`` is given.
            states: PStates of this topology whose top-level key is of the key's type.
            key: A Spark SQL expression over the row; None when every state is global.
            emits: The columns of the rows that it yields: DDL text, or a class with fields.
            on_timer: Called as ``on_timer(timer, *handles, timers)`` when a timer of a key is due;
                ``function`` then takes the :class:`~atoll.steps.process.timers.Timers` last, too.
            timers: Whether they go by the clock or by the rows' watermark.
            name: What to call the timers, where those of two steps would not be told apart.
        """
        place = declared_at(1)
        emitted = None if emits is None else _beside(emits, place)
        timing = None if on_timer is None else (on_timer, timers, name)
        seeing = seeing_objects(self, function)
        made = process(self, seeing, key, states, emitted, place, timing)
        return stream_of(giving(made, emits))

    def update(
        self,
        state: PStateDeclaration,
        change: Callable[[R], Path | None],
        *,
        key: str | None = None,
    ) -> Stream:
        """Change a PState along a path for each row, on the actor that owns the row's key.

        Args:
            state: A PState of this topology.
            change: Gives for a row the path, which ends in ``term``, ``set`` or ``delete``;
                None when the row changes nothing.
            key: A Spark SQL expression over the row: the top-level key that the path changes;
                None when the state is global.
        """
        place = declared_at(1)
        return stream_of(update(self, state, of_rows(self, change, "update", place), key, place))

    # Ends -------------------------------------------------------------------------------------

    def append_to(self, depot: DepotDeclaration) -> None:
        """Append the rows to a depot of this module, each row exactly once.

        The columns must be the depot's, by name; one that may be null may be missing. The rows
        are in the depot before the microbatch is published.

        Raises:
            DeclarationError: When it is no depot of this module. Columns are checked when the
                module is deployed.
        """
        place = declared_at(1)
        append_to(self, depot, place)

    def write_to(self, sink: Sink, *, name: str) -> None:
        """Write the rows to what is outside of Atoll: ``write_to(Folder("/data/x"), name="x")``.

        They are written after the commit, one microbatch after the other, by a thread of the
        sink's own: a slow or dead sink delays nothing. How often a row can be in the target is
        said by the sink's ``guarantee``. The stream of a PState's ``changes()`` lets a sink that
        can follow the PState: entries come, change and go.

        Args:
            sink: One of ``atoll.sinks``, or another :class:`atoll.sinks.Sink`.
            name: What the sink is called, unique among the module's; it is known by it for life.

        Raises:
            DeclarationError: When it is no sink, or the name cannot be or is taken. Columns are
                checked when the module is deployed.
        """
        write_to(self, sink, name, declared_at(1))

    # Time ------------------------------------------------------------------------------------

    def with_watermark(self, column: str, delay: Duration, *, name: str | None = None) -> Stream:
        """Say how late rows may come: ``with_watermark("at", "10 seconds")``.

        The watermark is the highest event time of all rows so far less the delay. It never
        falls, and the rows of a microbatch move that of the next one.

        Args:
            column: The event time: a timestamp, or a bigint of milliseconds since 1970.
            delay: ``"10 seconds"``, ``"1 hour 30 minutes"``, or a timedelta.
            name: What to call it, where two watermarks would not be told apart.
        """
        return stream_of(windows.with_watermark(self, column, delay, name, declared_at(1)))

    @overload
    def window(
        self,
        column: str,
        duration: Duration,
        slide: Duration | None = None,
        *,
        start: Duration = "0 seconds",
        allowed_lateness: Duration | None = None,
        split_late: Literal[False] = False,
        name: str | None = None,
    ) -> Windowed: ...
    @overload
    def window(
        self,
        column: str,
        duration: Duration,
        slide: Duration | None = None,
        *,
        start: Duration = "0 seconds",
        allowed_lateness: Duration | None = None,
        split_late: Literal[True],
        name: str | None = None,
    ) -> tuple[Windowed, Stream]: ...
    def window(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        column: str,
        duration: Duration,
        slide: Duration | None = None,
        *,
        start: Duration = "0 seconds",
        allowed_lateness: Duration | None = None,
        split_late: bool = False,
        name: str | None = None,
    ) -> Windowed | tuple[Windowed, Stream]:
        """A row per window of event time that each row lies in: ``window("at", "10 minutes")``.

        Adds ``window_start`` and ``window_end`` (not included). Behind a watermark only open
        windows count; rows that lie in none are dropped and counted, or come as a stream.

        Args:
            column: The event time.
            duration: How long a window is.
            slide: How far apart windows begin; as long as they are when None.
            start: How long after midnight of 1970-01-01 (UTC) a window begins.
            allowed_lateness: How long a window stays open after the watermark has passed its end.
            split_late: Whether ``(windowed, late)`` comes back instead of ``windowed`` alone.
            name: What to call what is kept of them, where it would not be told apart.
        """
        from atoll.stream.interim import Windowed

        lasting = (duration, slide, start)
        rows, late = windows.window(self, column, lasting, allowed_lateness, name, declared_at(1))
        windowed = Windowed(rows.graph, rows.operator)
        if split_late:
            return windowed, stream_of(late)
        windows.count_late(late, column, name)
        return windowed

    def session_window(
        self,
        column: str,
        gap: Duration,
        *,
        allowed_lateness: Duration | None = None,
        split_late: bool = False,
        name: str | None = None,
    ) -> Any:
        """Windows that last until no row has come for ``gap``: see ``aggregate_windows``.

        Gives :class:`~atoll.stream.interim.Sessions`, and with ``split_late`` beside them the
        stream of the rows that come too late for any. ``name`` is as for :meth:`window`.
        """
        from atoll.stream.interim import Sessions, Windowed

        place = declared_at(1)
        rows, late = windows.session_window(self, column, gap, allowed_lateness, name, place)
        sessions = Sessions(Windowed(rows.graph, rows.operator))
        if split_late:
            return sessions, stream_of(late)
        windows.count_late(late, column, name)
        return sessions

    def _at(self, flow: Flow) -> Stream:
        return stream_of(flow)

    def _then(self, operator: Operator) -> Stream:
        return stream_of(after(self.graph, operator))


def stream_of(flow: Flow) -> Stream:
    """The stream at a point of a graph."""
    return Stream(flow.graph, flow.operator)


def _beside(emits: object, place: str) -> pa.Schema:
    return emitted_columns(emits, place, beside=True)
