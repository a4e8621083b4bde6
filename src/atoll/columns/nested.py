"""Fields of structs and elements of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, certified
from atoll.columns.tree import MAY_FAIL, Call, Node, RowError
from atoll.columns.types import NotCertifiedError, is_integer, words

__all__ = ["field_of"]

_FAMILY = "Structs and arrays"


def field_of(node: Node, name: str) -> Node:
    """A field of a struct; letters' case means nothing.

    Raises:
        NotCertifiedError: When it has none of that name, or two.
    """
    if not pa.types.is_struct(node.type):
        raise NotCertifiedError(f"a field of {words(node.type)}")
    found = [n for n, each in enumerate(node.type) if each.name.lower() == name.lower()]
    if len(found) != 1:
        raise NotCertifiedError(f"a field {name!r} of {words(node.type)}")
    return Call(node.type.field(found[0]).type, node.fails, _member, (node,), (found[0],))


def _member(values: pa.Array, index: int) -> pa.Array:
    return pc.struct_field(values, index)


@certified(_FAMILY, "`s.field`", "struct", "Dot")
def _dot(reading: Reading, e: Any) -> Node:
    if type(e.expression).__name__ != "Identifier":
        raise NotCertifiedError("a call of a field")
    return field_of(reading.node(e.this), e.expression.name)


@certified(_FAMILY, "`a[0]`", "array; byte, short, int", "Bracket")
def _element(reading: Reading, e: Any) -> Node:
    if len(e.expressions) != 1:
        raise NotCertifiedError("more than one index")
    values, index = reading.node(e.this), reading.node(e.expressions[0])
    if not pa.types.is_list(values.type):
        raise NotCertifiedError(f"an element of {words(values.type)}")
    if not is_integer(index.type) or index.type == pa.int64():
        raise NotCertifiedError(f"an index of {words(index.type)}")
    return Call(values.type.value_type, MAY_FAIL, _at, (values, index))


def _at(lists: pa.Array, index: pa.Array) -> pa.Array:
    wanted = index.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    valid = np.array(
        pc.and_(lists.is_valid(), index.is_valid()).to_numpy(zero_copy_only=False), np.bool_
    )
    ends = lists.offsets.to_numpy().astype(np.int64)
    at = ends[:-1] + wanted
    if ((wanted < 0) | (at >= ends[1:]))[valid].any():
        raise RowError("INVALID_ARRAY_INDEX")
    return lists.values.take(pa.array(np.where(valid, at, 0), mask=~valid))
