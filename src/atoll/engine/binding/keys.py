"""Binds the keys of state steps: columns become elements of typed keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.engine.binding.key_types import check_key_type
from atoll.engine.exchange.keyed import KeyElement
from atoll.errors import DeclarationError
from atoll.schema import Scalar, Set
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.declared import Target

_FIELD_NAME = Scalar("str")


def elements_of(
    target: Target,
    keys: Sequence[str],
    rows: pa.Schema,
    step: Operator,
    *,
    element: bool = False,
) -> tuple[KeyElement, ...]:
    """The elements of the entries' keys, map keys from columns and struct fields by name.

    With ``element`` the last key is an element of the target, a set.
    """
    columns = iter(keys)
    elements = []
    for part in target.parts:
        if part.key is None:
            elements.append(KeyElement(None, part.text, _FIELD_NAME))
        else:
            elements.append(
                key_element(next(columns), part.key, rows, step, skips_null=part.skips_null)
            )
    if element:
        assert isinstance(target.node, Set)
        elements.append(key_element(next(columns), target.node.item, rows, step, skips_null=True))
    if target.pstate.partition_by is not None:
        elements[0] = replace(elements[0], partition_by=target.pstate.partition_by)
    return tuple(elements)


def key_element(
    column: str, kind: Scalar, rows: pa.Schema, step: Operator, *, skips_null: bool = False
) -> KeyElement:
    """A column as an element of that kind.

    Raises:
        DeclarationError: When the rows do not have it, or it is of another type.
    """
    check_key_type(column_type(rows, column, step), kind, column, step.place)
    return KeyElement(column, None, kind, skips_null and not kind.optional)


def column_type(rows: pa.Schema, column: str, step: Operator) -> pa.DataType:
    """The type of a column that a step uses.

    Raises:
        DeclarationError: When the rows do not have it.
    """
    if column not in rows.names:
        raise DeclarationError(
            f"{step.title} uses the column {column!r}, which the rows before it do not have",
            hint=f"they have {', '.join(rows.names)}",
            declared=step.place,
        )
    return rows.field(column).type
