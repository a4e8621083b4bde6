"""The columns of exported state: what a PState's schema is as a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.errors import PathError, UsageError
from atoll.pstate.spec import leaves
from atoll.schema import Map, Node, Set, Struct
from atoll.views.tables import entry_schema

if TYPE_CHECKING:
    from atoll.pstate.spec import Position, PStateSpec


@dataclass(frozen=True)
class ExportShape:
    """Columns, and which entries they are of.

    Attributes:
        position: The struct fields on the way to the values.
        entries: The columns of single entries: keys, then ``value``, or ``element`` of a set.
        schema: The columns of state; a set below a map is a list, ``elements``.
        changes: The columns of changes: ``microbatch`` and ``deleted`` before those of entries.
        listed: Whether a row holds a whole set.
    """

    position: Position
    entries: pa.Schema
    schema: pa.Schema
    changes: pa.Schema
    listed: bool

    @staticmethod
    def of(spec: PStateSpec, field: str | None) -> ExportShape:
        """The shape of a PState.

        Raises:
            UsageError: When there are several kinds of values and it is not said which, or the
                PState has no such field.
        """
        position = tuple(field.split(".")) if field else ()
        try:
            entries = entry_schema(spec, position)
        except PathError:
            raise _several(spec, field) from None
        end = entries.field(len(entries) - 1)
        keys = list(entries)[:-1]
        listed = end.name == "element" and bool(keys)
        shown = pa.field("elements", pa.list_(end.type)) if listed else end
        before = [
            pa.field("microbatch", pa.int64(), nullable=False),
            pa.field("deleted", pa.bool_(), nullable=False),
        ]
        changes = pa.schema([*before, *keys, end])
        return ExportShape(position, entries, pa.schema([*keys, shown]), changes, listed)


def _several(spec: PStateSpec, field: str | None) -> UsageError:
    """That a field is to be named, and which there are."""
    known = [".".join(at) for at in _positions(spec.node) if at]
    problem = f"has no field {field!r}" if field else "has several kinds of values"
    return UsageError(
        f"PState {spec.name!r} {problem}",
        hint=f"name the field to export: {', '.join(known)}" if known else "leave the field out",
        pstate=spec.name,
    )


def _positions(node: Node, position: Position = ()) -> list[Position]:
    """Where leaves and sets stand."""
    match node:
        case Set():
            return [position]
        case Map(value=value):
            return _positions(value, position)
        case Struct() if not node.leaf:
            return [
                found
                for name, member in node.fields
                for found in _positions(member, (*position, name))
            ]
    return [at for at, _ in leaves(node, position)]
