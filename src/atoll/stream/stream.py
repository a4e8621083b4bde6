"""The fluent face of a topology: each method adds one operator and returns the stream after it.

Streams are cheap, immutable values. They hold no rows: a topology runs once its module is
deployed. Expressions are Spark SQL strings and need no running Spark to declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from atoll.errors import DeclarationError
from atoll.queries import declare as queries
from atoll.steps import state_steps
from atoll.steps.append_to.declare import AppendTo
from atoll.steps.columns import joins
from atoll.steps.columns.distinct import Distinct
from atoll.steps.columns.explode import Explode
from atoll.steps.columns.select import Select
from atoll.steps.columns.transform import Transform
from atoll.steps.columns.union import Union
from atoll.steps.columns.with_columns import WithColumns
from atoll.steps.exchanges.hash_by import HashBy
from atoll.steps.exchanges.place_by import PlaceBy
from atoll.steps.exchanges.shuffle import Shuffle
from atoll.steps.exchanges.to_all import ToAll
from atoll.steps.exchanges.to_global import ToGlobal
from atoll.steps.materialize.declare import Materialize
from atoll.steps.rows.flat_map import FlatMap
from atoll.steps.rows.map import Map
from atoll.steps.rows.map_batches import MapBatches
from atoll.steps.rows.numbered import NUMBER, Numbered
from atoll.stream import control
from atoll.stream.grouped import Grouped, aggregated
from atoll.stream.incremental import Incremental
from atoll.stream.missing import missing
from atoll.stream.timed import Timed
from atoll.topology.operator import Operator
from atoll.topology.usercode import check_columns, check_function, declared_at, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from atoll.aggregates.base import Aggregator
    from atoll.path import Path
    from atoll.stream.control import Condition
    from atoll.topology.declared import DepotDeclaration, PStateDeclaration, Target
    from atoll.topology.graph import Graph
    from atoll.topology.rows import Row

__all__ = ["Aggregated", "Stream"]


class Stream(Timed, Incremental):
    """Rows of one microbatch on their way through a topology."""

    __slots__ = ("graph", "operator")

    def __init__(self, graph: Graph, operator: Operator) -> None:
        """Streams come from ``Microbatch.source``, not from here."""
        self.graph = graph
        self.operator = operator

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

    def with_columns(self, **expressions: str) -> Stream:
        """Add or replace columns: ``with_columns(minute="ts_millis div 60000")``."""
        step = WithColumns((self.operator,), declared_at(1), tuple(expressions.items()))
        return self._then(step)

    def where(self, condition: Condition) -> Stream:
        """Keep the rows for which the condition, SQL or a Python function of a row, holds."""
        return control.where(self, condition, declared_at(1))

    def explode(self, expression: str, *names: str, outer: bool = False) -> Stream:
        """One row per element of an array (one name) or entry of a map (two names).

        Without a name the element takes the place of the column that ``expression`` is.
        ``outer`` keeps rows whose collection is empty, with null.
        """
        place = declared_at(1)
        step = Explode(
            (self.operator,), place, expression, _element_names(expression, names, place), outer
        )
        return self._then(step)

    def union(self, *others: Stream) -> Stream:
        """Rows of all streams; columns are matched by name, duplicates stay."""
        place = declared_at(1)
        for other in others:
            if not isinstance(other, Stream):
                raise DeclarationError(
                    f"union takes streams, not {other!r}",
                    hint="of what aggregate returned, take the changes()",
                    declared=place,
                )
        inputs = (self.operator, *(other.operator for other in others))
        return self._then(Union(inputs, place))

    def transform(self, function: Callable[[Any], Any]) -> Stream:
        """Any DataFrame code: ``transform(lambda frame: frame.dropna())``.

        The function sees one microbatch's rows as a Spark DataFrame and returns another.
        """
        place = declared_at(1)
        check_function(function, 1, "transform", place)
        return self._then(Transform((self.operator,), place, function))

    # Rows and batches, by Python ----------------------------------------------------------------

    def map(self, function: Callable[[Row], Any], *, emits: str) -> Stream:
        """One row out (a dict or a row) for each row in. ``emits`` is a DDL schema."""
        place = declared_at(1)
        check_function(function, 1, "map", place)
        return self._then(Map((self.operator,), place, function, _schema(emits, place)))

    def flat_map(self, function: Callable[[Row], Iterable[Any]], *, emits: str) -> Stream:
        """Any number of rows out for each row in. ``emits`` is a DDL schema."""
        place = declared_at(1)
        check_function(function, 1, "flat_map", place)
        return self._then(FlatMap((self.operator,), place, function, _schema(emits, place)))

    def map_batches(
        self,
        function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        *,
        emits: str,
    ) -> Stream:
        """Arrow batches in, Arrow batches out; the function is called once per task."""
        place = declared_at(1)
        check_function(function, 1, "map_batches", place)
        return self._then(MapBatches((self.operator,), place, function, _schema(emits, place)))

    # Batch blocks -----------------------------------------------------------------------------

    def join(
        self,
        other: Stream | Target | PStateDeclaration,
        on: str | Sequence[str] | None = None,
        how: str = "inner",
        *,
        column: str | None = None,
    ) -> Stream:
        """Put rows of this microbatch that belong together side by side.

        Args:
            other: A stream of the same topology; or a place in a PState, whose value comes
                beside each row: ``join(profiles["user_id"], how="left", column="profile")``.
            on: Columns of both streams, which come out once; or conditions over ``left.x`` and
                ``right.y``. Not for a PState.
            how: ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``; for a PState
                ``inner`` or ``left``.
            column: What to call a PState's value; else it is called as the PState.

        Raises:
            DeclarationError: When that cannot be.
        """
        return joins.join(self, other, on, how, column, declared_at(1))

    def group_by(self, *keys: str) -> Grouped:
        """The rows by columns or expressions, for ``agg``: ``group_by("k", "v % 2 AS odd")``."""
        return Grouped(self, keys)

    def agg(self, *expressions: str, **aggregates: Aggregator) -> Stream:
        """One row of all rows of the microbatch, also when there are none.

        ``agg("sum(v) AS total")`` by Spark SQL, or ``agg(total=agg.sum("v"))`` by Atoll.

        Raises:
            DeclarationError: When there is no aggregate, or both kinds.
        """
        return aggregated(self, (), expressions, aggregates, declared_at(1))

    def distinct(self, *expressions: str) -> Stream:
        """Each combination of the expressions (by default of all columns) once, nothing else."""
        return self._then(Distinct((self.operator,), declared_at(1), expressions))

    def materialize(self) -> Stream:
        """Compute the rows once in a microbatch, however many steps go on from here."""
        return self._then(Materialize((self.operator,), declared_at(1)))

    # Control ----------------------------------------------------------------------------------

    def branch(self, *conditions: Condition) -> tuple[Stream, ...]:
        """A stream per condition, each row in the first that holds; last, all other rows.

        ``large, small = stream.branch("cents >= 10000")``. A null condition does not hold.
        """
        return control.branch(self, conditions, declared_at(1))

    def loop(
        self,
        body: Callable[[Stream], Stream],
        *,
        until: Condition,
        at_most: int,
        left: Literal["error", "emit"] = "error",
    ) -> Stream:
        """Send rows through ``body`` until a condition holds of them.

        Args:
            body: ``stream -> stream`` with the same columns; called once per round while
                declaring.
            until: Rows of which it holds come out, also before the first round.
            at_most: How many rounds there are.
            left: Whether rows left after the last round are an ``error`` or are ``emit``-ted.

        Raises:
            DeclarationError: When the body gives no stream.
        """
        return control.loop(self, body, until, at_most, left, declared_at(1))

    # Exchanges --------------------------------------------------------------------------------

    def hash_by(self, *expressions: str) -> Stream:
        """Bring rows with equal values to one task. State steps do this by themselves."""
        return self._then(HashBy((self.operator,), declared_at(1), expressions))

    def shuffle(self) -> Stream:
        """Spread rows evenly over the tasks; ends their append order."""
        return self._then(Shuffle((self.operator,), declared_at(1)))

    def to_global(self) -> Stream:
        """Bring all rows to one task."""
        return self._then(ToGlobal((self.operator,), declared_at(1)))

    def to_all(self) -> Stream:
        """A copy of each row to every task; before a ``process`` without key to every vnode."""
        return self._then(ToAll((self.operator,), declared_at(1)))

    def to_vnode(self, expression: str) -> Stream:
        """Bring rows to the task of a number; before a ``process`` without key to that vnode."""
        return self._then(PlaceBy((self.operator,), declared_at(1), expression, "to_vnode"))

    def partition_by(self, function: Callable[[Row], int]) -> Stream:
        """As ``to_vnode``, by a Python function from row to int."""
        place = declared_at(1)
        check_function(function, 1, "partition_by", place)
        numbered = self._then(Numbered((self.operator,), place, function, "partition_by"))
        step = PlaceBy((numbered.operator,), place, NUMBER, "partition_by", drops=True)
        return numbered._then(step)  # noqa: SLF001  # its own kind

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
        return state_steps.aggregate(self, target, aggregator, fields, declared_at(1))

    def lookup(self, target: Target | PStateDeclaration, column: str) -> Stream:
        """Add a column with the PState's value for each row, null where there is none."""
        return state_steps.lookup(self, target, column, declared_at(1))

    def process(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        function: Callable[..., Any],
        *,
        states: Sequence[PStateDeclaration],
        key: str | None = None,
        emits: str | None = None,
        on_timer: Callable[..., Any] | None = None,
        timers: Literal["processing", "event"] = "processing",
        name: str | None = None,
    ) -> Stream:
        """Call ``function(row, *handles)`` for each row on the actor that owns its key.

        Args:
            function: Reads and writes the states through the handles, in the order of
                ``states``; may yield rows (dicts) when ``emits`` is given.
            states: PStates of this topology whose top-level key is of the key's type.
            key: A Spark SQL expression over the row; None when every state is global.
            emits: The DDL schema of the rows that it yields.
            on_timer: Called as ``on_timer(timer, *handles, timers)`` when a timer of a key is due;
                ``function`` then takes the :class:`~atoll.steps.process.timers.Timers` last, too.
            timers: Whether they go by the clock or by the rows' watermark.
            name: What to call the timers, where those of two steps would not be told apart.
        """
        place = declared_at(1)
        emitted = None if emits is None else _schema(emits, place)
        timing = None if on_timer is None else (on_timer, timers, name)
        return state_steps.process(self, function, key, states, emitted, place, timing)

    def update(
        self,
        state: PStateDeclaration,
        change: Callable[[Row], Path | None],
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
        return state_steps.update(self, state, change, key, declared_at(1))

    # Queries ----------------------------------------------------------------------------------

    def select_from(
        self, pstate: PStateDeclaration, function: Callable[[Row], Path], *, emits: str
    ) -> Stream:
        """One row per value that a path leads to: the row's columns, then those of ``emits``.

        ``function`` gives the path for a row. In queries only.
        """
        place = declared_at(1)
        return queries.select_from(self, pstate, function, _schema(emits, place), place)

    def query(self, query: str, *, emits: str, **arguments: str) -> Stream:
        """Ask a query of the module for each row, and put the answer's columns beside it.

        ``arguments`` names for each parameter the column that gives it. In a topology the query
        reads that topology's own PStates as of the commit before the microbatch, and those of
        others as of the commit that the plan names.
        """
        place = declared_at(1)
        return queries.ask(self, query, arguments, _schema(emits, place), place)

    def returns(self, column: str | None = None, *, rows: Literal["one", "all"] = "one") -> None:
        """End a query: its caller gets the row (as a dict), or the value of one column of it.

        None when there is no row. With ``rows="all"`` a list of all of them. In queries only.
        """
        queries.returns(self, column, rows, declared_at(1))

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
        self.graph.check_target(depot, place)
        choose = depot.partition_by if callable(depot.partition_by) else None
        self.graph.add(AppendTo((self.operator,), place, depot, choose))

    def _then(self, operator: Operator) -> Stream:
        self.graph.add(operator)
        return Stream(self.graph, operator)


class Aggregated:
    """What ``aggregate`` returns: the place that was written, whose changes can be followed."""

    __slots__ = ("keys", "target")

    def __init__(self, target: Target, keys: tuple[str, ...]) -> None:
        """Made by ``Stream.aggregate``; ``keys`` are the expressions of the entries' keys."""
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
        from atoll.topology.expressions import bare_column

        names = tuple(name for name in map(bare_column, self.keys) if name is not None)
        if len(set(names)) < len(self.keys):
            names = ()
        return self.target.pstate.changes_named(names, declared_at(1))


def _schema(ddl: str, place: str) -> pa.Schema:
    from atoll.ddl import parse_ddl

    with placed(place):
        schema = parse_ddl(ddl)
        check_columns(schema.names)
        return schema


_ENTRY = ("key", "value")
"""What the entries of a map are taken apart into; an array has elements only."""


def _element_names(expression: str, names: tuple[str, ...], place: str) -> tuple[str, ...]:
    """The names of what ``explode`` makes: those given, or the column that it takes apart."""
    from atoll.topology.expressions import bare_column

    column = bare_column(expression)
    if len(names) > len(_ENTRY) or (not names and column is None):
        raise DeclarationError(
            f"explode of {expression} needs one name, or two for a map",
            hint='name the element: explode("split(tags, \',\')", "tag")',
            declared=place,
        )
    return names or (str(column),)
