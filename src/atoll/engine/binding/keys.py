"""Binds the keys of state steps: columns become elements of typed keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.engine.binding.key_types import check_key_type
from atoll.engine.program import KeyElement
from atoll.errors import DeclarationError
from atoll.schema import Scalar, Set
from atoll.steps.aggregate.declare import Aggregate
from atoll.steps.process.declare import Process
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.declared import Target

__all__ = ["column_type", "elements_of", "process_key"]

_FIELD_NAME = Scalar("str")


def elements_of(
    target: Target, keys: Sequence[str], rows: pa.Schema, step: Operator
) -> tuple[KeyElement, ...]:
    """The elements of the entries' keys, map keys from columns and struct fields by name."""
    columns = iter(keys)
    elements = []
    for part in target.parts:
        if part.key is None:
            elements.append(KeyElement(None, part.text, _FIELD_NAME))
        else:
            elements.append(
                key_element(next(columns), part.key, rows, step, skips_null=part.skips_null)
            )
    if isinstance(target.node, Set) and isinstance(step, Aggregate) and not step.deletes:
        elements.append(key_element(next(columns), target.node.item, rows, step, skips_null=True))
    if target.pstate.partition_by is not None:
        elements[0] = replace(elements[0], partition_by=target.pstate.partition_by)
    return tuple(elements)


def process_key(step: Process, rows: pa.Schema) -> KeyElement | None:
    """What says on which vnode a row is processed: its key, or a number; None without either."""
    if step.key is None:
        return None
    if step.route == "number":
        return key_element(step.key, Scalar("int"), rows, step)
    state = next(each for each in step.states if not each.is_global)
    kind = state.node.item if isinstance(state.node, Set) else state.node.key  # type: ignore[union-attr]
    return replace(key_element(step.key, kind, rows, step), partition_by=state.partition_by)


def key_element(
    column: str, kind: Scalar, rows: pa.Schema, step: Operator, *, skips_null: bool = False
) -> KeyElement:
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
