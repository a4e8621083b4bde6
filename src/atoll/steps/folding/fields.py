"""Aggregates over columns of known types, where no schema was declared to go by.

Where ``aggregate`` folds into what a PState holds, each aggregate says here itself what it makes
of the types that reach it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.arrow_types import node_of
from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.codec.values.packing import PACKING
from atoll.ddl import type_in_words
from atoll.errors import DeclarationError
from atoll.schema import Node, Scalar
from atoll.steps.folding.step import FoldedField

if TYPE_CHECKING:
    from atoll.steps.aggregate.declare import AggregateField


@dataclass(frozen=True)
class TypedField:
    """One aggregate over columns of known types."""

    declared: AggregateField
    node: Node
    kinds: tuple[pa.DataType, ...]

    @property
    def codec(self) -> LeafCodec:
        """How its state becomes what a reader sees."""
        return leaf_codec(self.node, self.declared.aggregator.finishers(self.node, self.kinds))


def bound_field(each: TypedField, start: int, stop: int) -> FoldedField:
    """The aggregate ready to run, its state in these physical columns of a value.

    Raises:
        DeclarationError: When it does not fit the types of its inputs.
    """
    aggregator = each.declared.aggregator.bind(each.node, each.kinds, PACKING)
    return FoldedField(aggregator, each.node, each.declared.columns, start, stop, each.kinds)


def typed_field(declared: AggregateField, rows: pa.Schema) -> TypedField:
    """An aggregate, and what it makes of the types of its columns.

    Raises:
        DeclarationError: When a column is not there, or it cannot aggregate such a type.
    """
    kinds = tuple(
        pa.bool_() if name is None else rows.field(known_column(rows, name)).type
        for name in declared.columns
    )
    try:
        node = declared.aggregator.result_node(kinds)
    except DeclarationError as error:
        raise DeclarationError(
            f"{declared.name}: {error.message}", hint=error.hint, **error.context
        ) from None
    assert node.leaf, "columns hold values"
    return TypedField(declared, node, kinds)


def key_kind(key: pa.Field) -> Scalar:
    """What a column is as an element of a key.

    Raises:
        DeclarationError: When it cannot be one.
    """
    try:
        kind = node_of(key.type)
    except DeclarationError:
        kind = None
    if not isinstance(kind, Scalar):
        raise DeclarationError(
            f"the key {key.name!r} is of type {type_in_words(key.type)}, which agg cannot group by",
            hint='cast it to a simple type, or aggregate by Spark SQL: agg("sum(v) AS total")',
        )
    return kind


def known_column(rows: pa.Schema, name: str) -> str:
    """A column that an aggregate uses.

    Raises:
        DeclarationError: When the rows do not have it.
    """
    if name not in rows.names:
        raise DeclarationError(
            f"agg uses the column {name!r}, which the rows before it do not have",
            hint=f"they have {', '.join(rows.names)}",
        )
    return name
