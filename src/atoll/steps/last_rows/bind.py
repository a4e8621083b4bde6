"""``over`` as tasks run it, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.aggregates.rows.lag import Lag
from atoll.arrow_types import node_of, value_type
from atoll.codec.values.leaf import LeafCodec
from atoll.engine.binding.keys import column_type
from atoll.engine.exchange.keyed import KeyElement, WholeRowStep
from atoll.errors import DeclarationError
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar, Struct
from atoll.steps.folding.fields import bound_field, key_kind, typed_field
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Collection

    from atoll.engine.step import Opening, Packing, Work
    from atoll.placement.mapping import Mapping
    from atoll.steps.aggregate.declare import AggregateField
    from atoll.steps.folding.step import FoldedField
    from atoll.steps.last_rows.declare import LastRows
    from atoll.topology.binding import StepName
    from atoll.topology.operator import Makes

_NOTHING = "nothing"
"""The field of what is kept where no column is needed: that there was a row."""


@dataclass(frozen=True)
class BoundLagged:
    """A column with the value of an earlier row."""

    column: str
    back: int


@dataclass(frozen=True)
class BoundFolded:
    """A column with what an aggregate makes of the last rows."""

    field: FoldedField
    codec: LeafCodec


@dataclass(frozen=True)
class BoundLastRows(WholeRowStep):
    """Let rows through with columns over the last rows of their keys.

    Entries of ``state`` are keys with a number behind them, which grows from row to row of a key;
    their values are the columns ``kept_columns``.
    """

    state: str
    elements: tuple[KeyElement, ...]
    window: int
    kept: int
    made: tuple[BoundLagged | BoundFolded, ...]
    kept_columns: tuple[str, ...]
    codec: LeafCodec
    rows: pa.Schema
    emitted: pa.Schema

    gives: ClassVar[Makes] = "at most one"  # none where no total can take it

    @property
    def emits(self) -> pa.Schema:
        """The rows, and the columns made."""
        return self.emitted

    def mapping(self, packing: Packing) -> Mapping:
        """The PState's."""
        return packing.mapping(self.state)

    def opens(self, vnodes: set[int], opening: Opening) -> dict[str, Collection[int]]:
        """Those that rows came for."""
        return {self.state: vnodes}

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Compute the columns, and keep the last rows."""
        from atoll.steps.last_rows.run import over

        if rows:
            work.emit(self.tag, over(self, rows, work))


def over_schema(step: LastRows, rows: pa.Schema) -> pa.Schema:
    """The columns that users know, then one for each aggregate.

    Raises:
        DeclarationError: When a column is not there, cannot be a key, or would be there twice.
    """
    _elements(step, rows)
    with placed(step.place):
        made = [pa.field(each.name, _made_type(each, rows)) for each in step.fields]
    known = [field for field in rows if field.name not in step.computed]
    twice = sorted({field.name for field in known} & {field.name for field in made})
    if twice:
        raise DeclarationError(
            f"over would make a second column {twice[0]!r}",
            hint="call it otherwise",
            declared=step.place,
        )
    return pa.schema([*known, *made])


def kept_specs(step: LastRows, rows: pa.Schema) -> dict[str, PStateSpec]:
    """The step's PState, with the schema that the types give it.

    Raises:
        DeclarationError: As :func:`over_schema`.
    """
    node: Node = Map(Scalar("int"), _kept_node(step, rows))
    for element in reversed(_elements(step, rows)):
        node = Map(element.kind, node)
    return {step.state.name: pstate_spec(replace(step.state, node=node), {})}


def bound_last_rows(step: LastRows, name: StepName, rows: pa.Schema) -> BoundLastRows:
    """The step as tasks run it.

    Raises:
        DeclarationError: As :func:`over_schema`.
    """
    with placed(step.place):
        made = tuple(_bound(each, rows) for each in step.fields)
    codec = kept_specs(step, rows)[step.state.name].sole_codec()
    assert codec is not None, "what is kept are values"
    return BoundLastRows(
        *name,
        step.state.name,
        _elements(step, rows),
        step.rows,
        step.kept,
        made,
        _kept_columns(step),
        codec,
        rows,
        over_schema(step, rows),
    )


def _bound(declared: AggregateField, rows: pa.Schema) -> BoundLagged | BoundFolded:
    if isinstance(declared.aggregator, Lag):
        (column,) = declared.columns
        assert column is not None, "a lag is of an expression"
        return BoundLagged(column, declared.aggregator.back)
    typed = typed_field(declared, rows)
    codec = typed.codec
    return BoundFolded(bound_field(typed, 0, len(codec.columns)), codec)


def _made_type(declared: AggregateField, rows: pa.Schema) -> pa.DataType:
    typed = typed_field(declared, rows)
    if isinstance(declared.aggregator, Lag):
        return value_type(typed.node)
    return typed.codec.value_arrow_type


def _elements(step: LastRows, rows: pa.Schema) -> tuple[KeyElement, ...]:
    for name in step.keys:
        column_type(rows, name, step)
    with placed(step.place):
        return tuple(KeyElement(name, None, key_kind(rows.field(name))) for name in step.keys)


def _kept_columns(step: LastRows) -> tuple[str, ...]:
    """The columns that the aggregates take, each once."""
    names = (name for each in step.fields for name in each.columns if name is not None)
    return tuple(dict.fromkeys(names))


def _kept_node(step: LastRows, rows: pa.Schema) -> Node:
    fields = {name: node_of(rows.field(name).type) for name in _kept_columns(step)}
    return Struct(**(fields or {_NOTHING: Scalar("bool")}))
