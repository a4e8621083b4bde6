"""Arrow columns as the Python values that users see, wherever they see them.

========================================  ====================================================
column                                    value
========================================  ====================================================
``array<T>``                              a list
``map<K, V>``                             a dict
``struct<f0: A, f1: B>``                  a tuple: fields that are called ``f0``, ``f1`` and so
                                          on, in order, are how a column writes one
any other ``struct<...>``                 a dict
simple types                              as Arrow gives them
========================================  ====================================================

A map whose keys cannot be those of a dict (arrays, maps, structs that are no tuples), or that has
a key twice, stays a list of pairs.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from atoll.objects import builder

_T = TypeVar("_T")


@lru_cache(maxsize=1024)
def is_tuple(kind: pa.DataType) -> bool:
    """Whether columns of this type hold tuples."""
    return pt.is_struct(kind) and [field.name for field in kind] == [
        f"f{index}" for index in range(kind.num_fields)
    ]


@overload
def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]: ...
@overload
def python_rows(rows: pa.RecordBatch | pa.Table, into: type[_T]) -> list[_T]: ...
def python_rows(rows: pa.RecordBatch | pa.Table, into: Any = None) -> list[Any]:
    """Each row as a dict of its columns, or as an object of a class.

    Raises:
        StateError: When the columns do not fit the class.
    """
    if into is not None:
        return list(map(builder(into), python_rows(rows)))
    names = rows.schema.names
    if not names:
        return [{} for _ in range(rows.num_rows)]
    columns = map(python_values, rows.columns)
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, None for null."""
    if not _differs(column.type):
        plain: list[Any] = column.to_pylist()
        return plain
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in python_values(chunk)]
    if pt.is_struct(column.type):
        values = _structs(column)
    elif pt.is_map(column.type):
        values = _maps(column)
    else:
        if pt.is_fixed_size_list(column.type):
            column = column.cast(pa.list_(column.type.value_field))
        values = _lists(column)
    if column.null_count:
        present = column.is_valid().to_pylist()
        return [value if there else None for value, there in zip(values, present, strict=True)]
    return values


@lru_cache(maxsize=1024)
def _differs(kind: pa.DataType) -> bool:
    """Whether Arrow gives other values than users see."""
    if pt.is_map(kind):
        return True
    if pt.is_struct(kind):
        return is_tuple(kind) or any(_differs(field.type) for field in kind)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return _differs(kind.value_type)
    return False


@lru_cache(maxsize=1024)
def _hashable(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return is_tuple(kind) and all(_hashable(field.type) for field in kind)
    return not pt.is_nested(kind)


def _structs(column: pa.StructArray) -> list[Any]:
    members = [python_values(member) for member in column.flatten()]
    if not members:
        return [{} for _ in range(len(column))]
    if is_tuple(column.type):
        return list(zip(*members, strict=True))
    names = [field.name for field in column.type]
    return [dict(zip(names, values, strict=True)) for values in zip(*members, strict=True)]


def _maps(column: pa.MapArray) -> list[Any]:
    kind = column.type
    if _differs(kind.key_type) or _differs(kind.item_type):
        keys, items = _entries(column, column.keys), _entries(column, column.items)
        pairs = iter(zip(keys, items, strict=True))
        found: list[Any] = [list(islice(pairs, count)) for count in _counts(column)]
    else:
        found = column.to_pylist()
    return list(map(_as_dict, found)) if _hashable(kind.key_type) else found


def _as_dict(pairs: list[tuple[Any, Any]] | None) -> Any:
    if pairs is None:
        return None
    made = dict(pairs)
    return made if len(made) == len(pairs) else pairs


def _lists(column: Any) -> list[Any]:
    values = iter(_entries(column, column.values))
    return [list(islice(values, count)) for count in _counts(column)]


def _entries(column: Any, values: pa.Array) -> list[Any]:
    """What all lists or maps of the column hold, one after the other."""
    offsets = column.offsets
    first = offsets[0].as_py()
    return python_values(values.slice(first, offsets[-1].as_py() - first))


def _counts(column: Any) -> list[int]:
    """How many entries each list or map has."""
    counts: list[int] = np.diff(column.offsets.to_numpy()).tolist()
    return counts
