"""Binds ``group_by(...).agg(...)`` of Atoll's aggregates: types are found, nothing is declared.

Where ``aggregate`` folds into what a PState holds, a fold has no schema to go by: each aggregate
says itself what it makes of the types that reach it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.arrow_types import value_type
from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.codec.values.opaque import PACKING
from atoll.ddl import type_in_words
from atoll.engine.program import FoldedField, FoldTerminal, KeyElement
from atoll.errors import DeclarationError
from atoll.schema import Node, Scalar
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from atoll.steps.aggregate.declare import AggregateField
    from atoll.steps.fold.declare import Fold

__all__ = ["TypedField", "bound_field", "fold_schema", "fold_terminal", "key_kind", "typed_field"]


@dataclass(frozen=True)
class TypedField:
    """One aggregate over columns of known types."""

    declared: AggregateField
    node: Node
    kinds: tuple[pa.DataType, ...]


def fold_schema(step: Fold, rows: pa.Schema) -> pa.Schema:
    """The keys' columns as they are, then one per aggregate.

    Raises:
        DeclarationError: When a column is not there, or cannot be a key or be aggregated.
    """
    with placed(step.place):
        keys = [rows.field(_known(rows, name)) for name in step.keys]
        for key in keys:
            key_kind(key)
        fields = [typed_field(each, rows) for each in step.fields]
    made = [pa.field(f.declared.name, value_type(f.node)) for f in fields]
    schema = pa.schema([*(key.remove_metadata() for key in keys), *made])
    if len(set(schema.names)) < len(schema.names):
        raise DeclarationError(
            f"agg would make two columns of one name: {', '.join(schema.names)}",
            hint="call the aggregate otherwise than a key",
            declared=step.place,
        )
    return schema


def fold_terminal(step: Fold, common: tuple[int, str, str], rows: pa.Schema) -> FoldTerminal:
    """The step as tasks run it.

    Raises:
        DeclarationError: As :func:`fold_schema`.
    """
    emitted = fold_schema(step, rows)
    folded: list[FoldedField] = []
    codecs: list[LeafCodec] = []
    start = 0
    with placed(step.place):
        elements = tuple(KeyElement(name, None, key_kind(rows.field(name))) for name in step.keys)
        for each in (typed_field(declared, rows) for declared in step.fields):
            words = each.declared.aggregator.finishers(each.node, each.kinds)
            codec = leaf_codec(each.node, words)
            stop = start + len(codec.columns)
            folded.append(bound_field(each, start, stop))
            codecs.append(codec)
            start = stop
    return FoldTerminal(*common, elements, tuple(folded), tuple(codecs), emitted)


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
        pa.bool_() if name is None else rows.field(_known(rows, name)).type
        for name in declared.columns
    )
    try:
        node = declared.aggregator.result_node(kinds)
    except DeclarationError as error:
        raise DeclarationError(
            f"{declared.name}: {error.message}", hint=error.hint, **error.context
        ) from None
    if not node.leaf:
        raise DeclarationError(
            f"{declared.name}=agg.{declared.aggregator} adds entries to a "
            f"{type(node).__name__}, and a row's column holds one value",
            hint="make each entry a row: name its key as one more key, and aggregate its values",
        )
    return TypedField(declared, node, kinds)


def key_kind(key: pa.Field) -> Scalar:
    """What a column is as an element of a key.

    Raises:
        DeclarationError: When it cannot be one.
    """
    from atoll.arrow_types import node_of

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


def _known(rows: pa.Schema, name: str) -> str:
    if name not in rows.names:
        raise DeclarationError(
            f"agg uses the column {name!r}, which the rows before it do not have",
            hint=f"they have {', '.join(rows.names)}",
        )
    return name
