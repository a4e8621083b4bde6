"""Fields of structs and elements of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.forms import Reading, arguments, certified
from atoll.columns.tree import MAY_FAIL, SURE, Call, Literal, Node, RowError
from atoll.columns.types import DATE, INTEGERS, NotCertifiedError, common_type, is_integer, words

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


@certified(
    _FAMILY,
    "`a[0]`, `element_at(a, 1)`, `m['k']`, `element_at(m, 'k')`",
    "array with byte, short, int; map of string, boolean, date, byte, short, int, long with that",
    "Bracket",
)
def _element(reading: Reading, e: Any) -> Node:
    if len(e.expressions) != 1:
        raise NotCertifiedError("more than one index")
    values, index = reading.node(e.this), reading.node(e.expressions[0])
    first = e.args.get("offset") or 0
    if pa.types.is_map(values.type):
        return _entry(values, index)
    if not pa.types.is_list(values.type):
        raise NotCertifiedError(f"an element of {words(values.type)}")
    if not is_integer(index.type) or index.type == pa.int64():
        raise NotCertifiedError(f"an index of {words(index.type)}")
    kernel = _counted if first else _at
    return Call(values.type.value_type, MAY_FAIL, kernel, (values, index))


def _counted(lists: pa.Array, index: pa.Array) -> pa.Array:
    """From 1, or from the end."""
    if pc.any(pc.equal(index, pa.scalar(0, index.type))).as_py():
        nulls = pc.or_(lists.is_null(), index.is_null())
        if pc.any(pc.and_(pc.invert(nulls), pc.equal(index, pa.scalar(0, index.type)))).as_py():
            raise RowError("INVALID_INDEX_OF_ZERO")
    at = index.cast(pa.int64())
    sizes = pc.list_value_length(lists).cast(pa.int64())
    return _at(lists, pc.if_else(pc.less(at, 0), pc.add(at, sizes), pc.subtract(at, 1)))


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


_KEYS = (pa.string(), pa.bool_(), DATE, *INTEGERS)


def _entry(values: Node, key: Node) -> Node:
    """The value under a key; null where there is none."""
    kind = values.type.key_type
    if key.type != kind or kind not in _KEYS:
        raise NotCertifiedError(f"an entry of {words(values.type)} by {words(key.type)}")
    return Call(values.type.item_type, values.fails or key.fails, _under, (values, key))


def _under(maps: pa.Array, keys: pa.Array) -> pa.Array:
    """Of keys that are there twice the first."""
    ends = maps.offsets.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(maps)), np.diff(ends))
    found = pc.equal(maps.keys.slice(ends[0], ends[-1] - ends[0]), keys.take(pa.array(rows)))
    hits = np.flatnonzero(found.fill_null(fill_value=False).to_numpy(zero_copy_only=False))
    at = np.full(len(maps), -1)
    at[rows[hits][::-1]] = hits[::-1] + ends[0]
    missing = (at < 0) | maps.is_null().to_numpy(zero_copy_only=False)
    return maps.items.take(pa.array(np.where(missing, 0, at), mask=missing))


@certified(_FAMILY, "`size(a)`, `cardinality(a)`", "array, map", "ArraySize", "cardinality")
def _size(reading: Reading, e: Any) -> Node:
    (argument,) = arguments(e) if e.key == "anonymous" else (e.this,)
    values = reading.node(argument)
    if not pa.types.is_list(values.type) and not pa.types.is_map(values.type):
        raise NotCertifiedError(f"the size of {words(values.type)}")
    return Call(pa.int32(), values.fails, _length, (values,))


def _length(values: pa.Array) -> pa.Array:
    sizes = np.diff(values.offsets.to_numpy())
    return pa.array(sizes, pa.int32(), mask=values.is_null().to_numpy(zero_copy_only=False))


@certified(
    _FAMILY,
    "`array_contains(a, 1)`",
    "array of string, byte, short, int, long, date; a literal",
    "ArrayContains",
)
def _contains(reading: Reading, e: Any) -> Node:
    values, sought = reading.node(e.this), reading.node(e.expression)
    kind = values.type.value_type if pa.types.is_list(values.type) else None
    if kind not in _KEYS or not isinstance(sought, Literal) or sought.value is None:
        raise NotCertifiedError(f"array_contains of {words(values.type)}")
    if common_type([Literal(kind, SURE, None), sought], "array_contains") != kind:
        raise NotCertifiedError(f"array_contains of {words(values.type)} and {words(sought.type)}")
    options = (pa.scalar(sought.value, kind),)
    return Call(pa.bool_(), values.fails, _holds, (values,), options)


def _holds(lists: pa.Array, sought: pa.Scalar) -> pa.Array:
    """Null where it is not there, and a null is."""
    ends = lists.offsets.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(lists)), np.diff(ends))
    elements = lists.values.slice(ends[0], ends[-1] - ends[0])
    same = pc.equal(elements, sought).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    hit = np.bincount(rows[same], minlength=len(lists)) > 0
    empty = elements.is_null().to_numpy(zero_copy_only=False)
    unsure = np.bincount(rows[empty], minlength=len(lists)) > 0
    nulls = lists.is_null().to_numpy(zero_copy_only=False) | (unsure & ~hit)
    return pa.array(hit, mask=nulls)
