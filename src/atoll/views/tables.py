"""A PState's entries as Arrow tables: the keys in columns, the value beside them.

For scans of a whole PState: each group of vnodes is read apart from the others, all as of one
commit, so that many readers can share the work and still see one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from atoll.arrow_types import arrow_type
from atoll.codec.keys.decode import decode_columns
from atoll.codec.keys.elements import decode_key
from atoll.errors import PathError
from atoll.exact_values import exact_array
from atoll.pstate.spec import Position, PStateSpec
from atoll.pstate.view import PStateView
from atoll.schema import Map, Node, Scalar, Set, Struct

_ROWS_PER_BATCH = 16_384
_FIELD_NAME = Scalar("str")


def entry_schema(spec: PStateSpec, position: Position = ()) -> pa.Schema:
    """The columns of the entries: ``key``, ``key_2``, ... and ``value``; ``element`` of a set.

    Args:
        spec: The PState.
        position: Which leaf, by the names of the struct fields on the way to it.

    Raises:
        PathError: When the schema has no such leaf.
    """
    kinds, end = _walk(spec, position)
    names = ["key" if index == 0 else f"key_{index + 1}" for index in range(len(kinds))]
    fields = [pa.field(n, arrow_type(k)) for n, k in zip(names, kinds, strict=True)]
    if isinstance(end, Set):
        return pa.schema([*fields, pa.field("element", arrow_type(end.item))])
    return pa.schema([*fields, pa.field("value", spec.codec(position).value_arrow_type)])


def read_entries(
    spec: PStateSpec, view: PStateView, vnodes: Iterable[int], position: Position = ()
) -> Iterator[pa.RecordBatch]:
    """The entries of some vnodes in batches, by vnode and key.

    Raises:
        PathError: When the schema has no such leaf.
    """
    schema = entry_schema(spec, position)
    for vnode in vnodes:
        entries = iter(view.scan(vnode))
        while page := list(islice(entries, _ROWS_PER_BATCH)):
            if position or len(spec.codecs) > 1:
                page = [(k, v) for k, v in page if stands_at(k, spec.node, position)]
            yield entries_batch(spec, schema, position, page)


def entries_batch(
    spec: PStateSpec,
    schema: pa.Schema,
    position: Position,
    page: Sequence[tuple[bytes, bytes | None]],
) -> pa.RecordBatch:
    """Entries at a position as columns of their :func:`entry_schema`; None is a null value."""
    kinds, end = _walk(spec, position)
    kinds = [*kinds, end.item] if isinstance(end, Set) else kinds
    keys = [key for key, _ in page]
    if position:
        columns = _columns_between_fields(spec, keys, kinds)
    else:
        columns = decode_columns(keys, kinds) if kinds else []
    if schema.names[-1] == "value":
        codec = spec.codec(position)
        columns.append(codec.finish_columns(codec.decode_columns([value for _, value in page])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _columns_between_fields(
    spec: PStateSpec, keys: list[bytes], kinds: list[Scalar]
) -> list[pa.Array]:
    """The key columns without the constant names of struct fields."""
    rows = [_map_keys(decode_key(key), spec.node) for key in keys]
    return [
        exact_array([row[index] for row in rows], arrow_type(kind))
        for index, kind in enumerate(kinds)
    ]


def _map_keys(elements: tuple[object, ...], node: Node | None) -> list[object]:
    found = []
    for element in elements:
        if isinstance(node, Struct):
            node = node.get(str(element))
            continue
        found.append(element)
        node = node.value if isinstance(node, Map) else None
    return found


def stands_at(key: bytes, node: Node | None, position: Position) -> bool:
    """Whether an entry is one of those at a position."""
    names = []
    for element in decode_key(key):
        if isinstance(node, Struct):
            names.append(element)
            node = node.get(str(element))
        else:
            node = node.value if isinstance(node, Map) else None
    return tuple(names) == position


def _walk(spec: PStateSpec, position: Position) -> tuple[list[Scalar], Node]:
    """The kinds of the map keys on the way to a leaf or set, and what stands there."""
    kinds: list[Scalar] = []
    names = list(position)
    node: Node = spec.node
    while True:
        if isinstance(node, Map):
            kinds.append(node.key)
            node = node.value
        elif isinstance(node, Struct) and not node.leaf and names:
            child = node.get(names.pop(0))
            if child is None:
                raise PathError(f"PState {spec.name!r} has no field {'.'.join(position)!r}")
            node = child
        else:
            break
    if names or not (node.leaf or isinstance(node, Set)):
        raise PathError(
            f"PState {spec.name!r} has several kinds of values",
            hint="name the field to read, such as option('field', 'tags')",
        )
    return kinds, node
