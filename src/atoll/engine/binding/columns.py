"""The columns that state steps add to their rows."""

from __future__ import annotations

import pyarrow as pa

from atoll.arrow_types import value_type as plain_type
from atoll.errors import DeclarationError
from atoll.schema import List, Map, Node, Set, Struct
from atoll.topology.operator import Operator


def value_type(node: Node, step: Operator) -> pa.DataType:
    """The type of a column of whole values of a PState.

    Raises:
        DeclarationError: When a row could not say them.
    """
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, Struct):
            if each.names() == tuple(f"f{index}" for index in range(len(each.fields))):
                raise DeclarationError(
                    f"in a column, a struct of {', '.join(each.names())} is a tuple; the PState "
                    "has it as a struct",
                    hint="call the fields something else, or declare tuple[...]",
                    declared=step.place,
                )
            pending += [member for _, member in each.fields]
        elif isinstance(each, List | Set):
            pending.append(each.item)
        elif isinstance(each, Map):
            pending.append(each.value)
    return plain_type(node)


def distinct_columns(schema: pa.Schema, step: Operator) -> pa.Schema:
    """The columns, when no two have one name.

    Raises:
        DeclarationError: When two have.
    """
    if len(set(schema.names)) < len(schema.names):
        raise DeclarationError(
            f"{step.title} would emit two columns of one name: {', '.join(schema.names)}",
            hint="choose another column name",
            declared=step.place,
        )
    return schema
