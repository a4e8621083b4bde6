"""The two sides of a join with their types: which columns are its keys, and which are kept."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from atoll.arrow_types import node_of
from atoll.ddl import type_in_words
from atoll.engine.exchange.keyed import KeyElement
from atoll.errors import DeclarationError
from atoll.schema import Node, Scalar, Struct
from atoll.steps.changing_join.signed import NEW, OLD, behind_changes
from atoll.steps.incremental_join.bound import PRESENT
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.steps.incremental_join.declare import Side
    from atoll.topology.operator import Operator


class Joining(Protocol):
    """A join as declared."""

    @property
    def place(self) -> str:
        """Where it stands."""

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Where the rows of both sides come from."""

    @property
    def names(self) -> tuple[str, ...]:
        """Key columns of both sides."""

    def keys(self, side: Side) -> tuple[str, ...]:
        """The key columns of a side."""


@dataclass(frozen=True)
class SideTypes:
    """One side with its types."""

    rows: pa.Schema
    elements: tuple[KeyElement, ...]
    kept: tuple[str, ...]
    node: Struct


def sides_of(
    step: Joining,
    rows: tuple[pa.Schema, pa.Schema],
    left_out: tuple[Collection[str], Collection[str]],
) -> tuple[SideTypes, SideTypes]:
    """Both sides with their types.

    Args:
        step: The join.
        rows: The columns of both.
        left_out: The columns of each that are not kept.

    Raises:
        DeclarationError: When a key is not there or the keys' types differ, or a column is of a
            type that cannot be kept.
    """
    with placed(step.place):
        for operator, schema in zip(step.inputs, rows, strict=True):
            _check_changes(operator, schema)
        left = _side(step, "left", rows[0], left_out[0])
        right = _side(step, "right", rows[1], left_out[1])
        for one, other in zip(left.elements, right.elements, strict=True):
            if one.kind != other.kind:
                raise DeclarationError(
                    f"incremental_join compares {one.column!r} of the left side, "
                    f"{type_in_words(rows[0].field(str(one.column)).type)}, with "
                    f"{other.column!r} of the right, "
                    f"{type_in_words(rows[1].field(str(other.column)).type)}",
                    hint="cast one of them before",
                )
    return left, right


def pair_schema(step: Joining, left: SideTypes, right: SideTypes) -> pa.Schema:
    """The shared key columns, the others of the left side, then those of the right.

    Raises:
        DeclarationError: When two columns would have one name.
    """
    import pyarrow as pa

    names = [*step.names, *(name for name in left.kept if name not in step.names)]
    fields = [left.rows.field(name) for name in names]
    fields += [right.rows.field(name) for name in right.kept if name not in step.names]
    twice = sorted({each.name for each in fields if [f.name for f in fields].count(each.name) > 1})
    if twice:
        raise DeclarationError(
            f"incremental_join makes more than one column {twice[0]!r}",
            hint="rename it on one side before: select(..., "
            f'"{twice[0]} AS other_name"), or leave it out',
            declared=step.place,
        )
    return pa.schema([each.remove_metadata() for each in fields])


def _check_changes(operator: Operator, rows: pa.Schema) -> None:
    """Refuse changes of which steps between took some: a row that went may have come with them."""
    if {OLD, NEW} <= set(rows.names) and behind_changes(operator):
        raise DeclarationError(
            "incremental_join takes changes as changes() or another such join returned them, and "
            "other steps stand between",
            hint="join them first and put the steps behind the join; or, to join each change as "
            f'a row of its own, rename: select("{rows.names[0]}", "{NEW} AS value")',
        )


def _side(step: Joining, side: Side, rows: pa.Schema, left_out: Collection[str]) -> SideTypes:
    elements = tuple(
        KeyElement(name, None, _key_kind(rows, name, side), skips_null=True)
        for name in step.keys(side)
    )
    kept = tuple(name for name in rows.names if name not in left_out)
    nodes: dict[str, Node] = {}
    for name in kept:
        try:
            nodes[name] = node_of(rows.field(name).type)
        except DeclarationError as error:
            raise DeclarationError(
                f"incremental_join cannot keep the column {name!r}: {error.message}",
                hint=error.hint,
            ) from None
    return SideTypes(rows, elements, kept, Struct(**(nodes or {PRESENT: Scalar("bool")})))


def _key_kind(rows: pa.Schema, name: str, side: Side) -> Scalar:
    if name not in rows.names:
        raise DeclarationError(
            f"incremental_join uses the column {name!r}, which the {side} side does not have",
            hint=f"it has {', '.join(rows.names)}",
        )
    try:
        kind = node_of(rows.field(name).type)
    except DeclarationError:
        kind = None
    if not isinstance(kind, Scalar):
        raise DeclarationError(
            f"the key {name!r} is of type {type_in_words(rows.field(name).type)}, which "
            "incremental_join cannot compare",
            hint="cast it to a simple type before",
        )
    return Scalar(kind.kind)
