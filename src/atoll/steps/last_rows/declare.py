"""Columns over the last rows of a key: ``stream.over("seller", rows=10, mean=agg.avg("price"))``.

Each row goes on with what the aggregates make of it and the rows of its key that came before it,
at most so many in all. The step keeps the last rows of each key, of each only what it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.rows.lag import Lag
from atoll.aggregates.valued.maps import MergeMapValue
from atoll.errors import DeclarationError
from atoll.schema import Map
from atoll.steps.fold.build import as_columns, fields_of
from atoll.steps.projection import Projection
from atoll.topology.clocks import origins_of
from atoll.topology.kept.hidden import Hidden, told
from atoll.topology.operator import StateOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.aggregates.base import Aggregator
    from atoll.engine.step import BoundStep
    from atoll.pstate.spec import PStateSpec
    from atoll.steps.aggregate.declare import AggregateField
    from atoll.topology.binding import Binding
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.flow import Flow


@dataclass(frozen=True, eq=False)
class LastRows(StateOperator):
    """The rows, each with what its aggregates make of the last ones of its key.

    ``keys`` are columns of the input; ``computed`` those of its columns that were made for the
    step. ``kept`` is how many rows of each key stay in ``state``, which has no schema before the
    types are known.
    """

    keeps_rows: ClassVar[bool] = True

    keys: tuple[str, ...]
    rows: int
    kept: int
    fields: tuple[AggregateField, ...]
    state: PStateDeclaration
    computed: tuple[str, ...]

    @property
    def title(self) -> str:
        """As users write it."""
        return "over"

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """Its own."""
        return (self.state,)

    @property
    def emits(self) -> bool:
        """A row for each."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns, then one for each aggregate."""
        from atoll.steps.last_rows.bind import over_schema

        return over_schema(self, inputs[0])

    def hidden_specs(self, inputs: Sequence[pa.Schema]) -> dict[str, PStateSpec]:
        """The last rows."""
        from atoll.steps.last_rows.bind import kept_specs

        return kept_specs(self, inputs[0])

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.last_rows.bind import bound_last_rows

        return (bound_last_rows(self, binding.name(self), binding.rows(self)),)


def over(
    stream: Flow,
    key: str | Sequence[str],
    rows: int,
    aggregates: Mapping[str, Aggregator],
    name: str | None,
    place: str,
) -> LastRows:
    """The step; what it needs before it is added."""
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or not all(isinstance(each, str) and each.strip() for each in keys):
        raise DeclarationError(
            f"over needs to know whose last rows are meant, key={key!r} does not say",
            hint='over("seller", ...), or over(["seller", "category"], ...)',
            declared=place,
        )
    if type(rows) is not int or rows < 1:
        raise DeclarationError(
            f"over goes over the last rows of a key, not over rows={rows!r}",
            hint="rows=10 are the row itself and the nine before it",
            declared=place,
        )
    if not aggregates:
        raise DeclarationError(
            "over adds no column",
            hint='name some: over("seller", rows=10, total=agg.sum("price"))',
            declared=place,
        )
    columns = as_columns(aggregates, place, beside=True)
    for each in columns.values():
        if isinstance(each, MergeMapValue):
            raise DeclarationError(
                f"agg.{each} needs the maps of rows that came before, which over does not keep",
                hint='take the maps apart: explode("m", "key", "value"), then agg.map_from',
                declared=place,
            )
    back = max([each.back for each in columns.values() if isinstance(each, Lag)], default=0)
    folds = any(not isinstance(each, Lag) for each in columns.values())
    kept = max(back, rows - 1 if folds else 0)
    hidden = stream.graph.add_hidden(
        _hidden(stream, keys, kept, columns, (name, place)), Map(int, int)
    )
    (state,) = stream.graph.hidden_pstates(hidden)
    projection = Projection()
    key_columns = tuple(map(projection.column, keys))
    fields = fields_of(columns, projection)
    before = projection.before(stream, place, "over")
    computed = tuple(projection.computed)
    return LastRows((before,), place, key_columns, rows, kept, fields, state, computed)


def _hidden(
    stream: Flow,
    keys: tuple[str, ...],
    kept: int,
    columns: Mapping[str, Aggregator],
    named: tuple[str | None, str],
) -> Hidden:
    """What is kept: of the last rows of each key what the aggregates take."""
    by, origins = ", ".join(keys), "+".join(origins_of(stream.operator))
    taken = ", ".join(sorted(told(each) for each in columns.values()))
    name, place = named
    return Hidden(
        "last-rows",
        stream.graph.topology,
        (origins, by),
        (("keys", by), ("rows", str(kept)), ("columns", taken)),
        stream.graph.ways[stream.operator],
        f"over({by}) of {origins}",
        name=name,
        place=place,
        naming='give it a name: over("seller", ..., name="prices")',
    )
