"""Rows whose key has not come before: ``stream.deduplicate("id", within="1 hour", at="at")``.

The step keeps for each key when a row of it passed, for as long as that can matter. Rows that
are late by a watermark are taken out before it, since what would tell them is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from atoll.durations import parse_millis
from atoll.errors import DeclarationError
from atoll.schema import Map
from atoll.steps.projection import Projection
from atoll.steps.windows.build import count_late, time_column
from atoll.topology.clocks import clock_of, origins_of, watermarks_of
from atoll.topology.flow import Flow, after
from atoll.topology.kept.hidden import Hidden
from atoll.topology.operator import BatchOperator, StateOperator
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.pstate.spec import PStateSpec
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.operator import Makes
    from atoll.topology.times import Clock, Times
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class InTime(BatchOperator):
    """The rows whose time the watermark has not passed; or with ``late`` the others."""

    keeps_rows: ClassVar[bool] = True
    makes: ClassVar[Makes] = "at most one"
    runs_own_code: ClassVar[bool] = True

    column: str
    clock: Clock
    late: bool = False
    closed_ms: int | None = None
    """What the watermark shows in this microbatch."""

    @property
    def title(self) -> str:
        """As users write it."""
        return "deduplicate"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's.

        Raises:
            DeclarationError: When the column is no event time.
        """
        from atoll.steps.windows.event_time import check_event_time

        check_event_time(inputs[0], self.column, self.title, self.place)
        return inputs[0]

    def at(self, times: Times) -> InTime:
        """The step while the watermark is where it is."""
        return replace(self, closed_ms=times.of(self.clock))

    def run(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, rejects: Rejects | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; a row without a time is late."""
        import pyarrow as pa

        from atoll.steps.windows.event_time import event_millis

        for batch in batches:
            millis, known = event_millis(batch.column(self.column))
            passes = known if self.closed_ms is None else known & (millis >= self.closed_ms)
            yield batch.filter(pa.array(~passes if self.late else passes))


@dataclass(frozen=True, eq=False)
class Deduplicate(StateOperator):
    """Rows of which no other with the same key passed within a time, in their order.

    ``keys`` are columns of the input; ``computed`` those of its columns that were made for them.
    ``column`` is the event time by which ``within_ms`` goes, None: it goes by the clock. Without
    ``within_ms`` a key is kept for ever. ``states``, whose schemas are found from the types that
    reach the step: which keys passed when, and beside it in the order of their times.
    """

    keeps_rows: ClassVar[bool] = True

    keys: tuple[str, ...]
    column: str | None
    within_ms: int | None
    clock: Clock
    states: tuple[PStateDeclaration, ...]
    computed: tuple[str, ...]

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return self.states

    @property
    def emits(self) -> bool:
        """A row for each that passes."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's."""
        from atoll.steps.deduplicate.bind import passing_schema

        return passing_schema(self, inputs[0])

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """What has passed."""
        from atoll.steps.deduplicate.bind import seen_specs

        return seen_specs(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.deduplicate.bind import bound_deduplicate

        return (bound_deduplicate(self, binding.name(self), binding.rows(self)),)


def deduplicate(
    stream: Flow,
    key: str | Sequence[str],
    within: object,
    at: str | None,
    name: str | None,
    place: str,
) -> Flow:
    """The rows whose key has not come before."""
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or not all(isinstance(each, str) and each.strip() for each in keys):
        raise DeclarationError(
            f"deduplicate needs to know which rows are the same, key={key!r} does not say",
            hint='key="id", or key=["user", "id"]',
            declared=place,
        )
    if at is not None and within is None:
        raise DeclarationError(
            "deduplicate keeps a key for ever without within=, so at= says nothing",
            hint='say how long: within="1 hour"; or leave at= out',
            declared=place,
        )
    with placed(place):
        within_ms = None if within is None else parse_millis(within, "within=")
        column = None if at is None else time_column(at, "deduplicate")
    clock = () if column is None else clock_of(stream.operator)
    if column is not None and not clock:
        raise DeclarationError(
            "deduplicate by event time needs a watermark, which the rows do not have",
            hint=f'put with_watermark("{column}", "10 seconds") before it, or leave at= out',
            declared=place,
        )
    hidden = _hidden(stream, keys, column, within_ms, (name, place))
    hidden = stream.graph.add_hidden(hidden, *[Map(int, int)] * len(hidden.endings))
    states = stream.graph.hidden_pstates(hidden)
    if column is not None:
        late = InTime((stream.operator,), place, column, clock, late=True)
        count_late(after(stream.graph, late), column, name)
        stream = after(stream.graph, InTime((stream.operator,), place, column, clock))
    projection = Projection()
    columns = tuple(map(projection.column, keys))
    before = projection.before(stream, place, "deduplicate")
    computed = tuple(projection.computed)
    step = Deduplicate((before,), place, columns, column, within_ms, clock, states, computed)
    return after(stream.graph, step)


def _hidden(
    stream: Flow,
    keys: tuple[str, ...],
    column: str | None,
    within_ms: int | None,
    named: tuple[str | None, str],
) -> Hidden:
    """What is kept: the keys that passed, and when."""
    by, origins = ", ".join(keys), "+".join(origins_of(stream.operator))
    time = "for ever" if within_ms is None else f"{within_ms} ms"
    clock = "the clock" if column is None else f"{column}, {watermarks_of(stream.operator)}"
    timed = () if within_ms is None else (("time", clock),)
    name, place = named
    return Hidden(
        "passed",
        stream.graph.topology,
        (origins, by),
        (("keys", by), ("within", time), *timed),
        stream.graph.ways[stream.operator],
        f"deduplicate({by}) of {origins}",
        name=name,
        place=place,
        endings=("",) if within_ms is None else ("", "-times"),
        naming='give it a name: deduplicate("id", name="orders")',
    )
