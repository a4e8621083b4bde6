"""The rows of exported state, from entries as stores and logs have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.codec.keys.elements import DATA_END, EMPTY_KEY, decode_element
from atoll.pstate.converter import Converter
from atoll.pstate.store.changefile import read_vnode
from atoll.views.tables import entries_batch, read_entries, stands_at

if TYPE_CHECKING:
    from atoll.microbatch.commits.history import CommitHistory
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.view import PStateView
    from atoll.views.export.shape import ExportShape

_ROWS = 16_384


def state_entries(
    spec: PStateSpec, view: PStateView, shape: ExportShape
) -> Iterator[pa.RecordBatch]:
    """All rows of a PState, by vnode and key."""
    vnodes = range(spec.vnode_count)
    if shape.listed:
        for vnode in vnodes:
            yield from _sets(spec, view, vnode, shape)
        return
    found = False
    for batch in read_entries(spec, view, vnodes, shape.position):
        found = found or batch.num_rows > 0
        yield batch
    if not found and spec.node.leaf and spec.initial_bytes is not None:
        yield entries_batch(spec, shape.entries, (), [(EMPTY_KEY, spec.initial_bytes)])


def changed_entries(
    spec: PStateSpec, now: CommitHistory, shape: ExportShape
) -> Iterator[pa.RecordBatch]:
    """What one commit wrote, by vnode and key; the value of what it deleted is null."""
    part = now.commit.pstates.get(spec.name)
    logs = [log for job in part.logs for log in job] if part is not None else []
    for vnode in sorted({vnode for log in logs for vnode in log.vnodes}):
        written: dict[bytes, bytes | None] = {}
        for log in logs:
            if vnode in log.vnodes:
                keys, values = read_vnode(now, log.file, vnode)
                end = bisect_left(keys, DATA_END)  # behind them are counters
                written.update(zip(keys[:end], values[:end], strict=True))
        yield from _changes(spec, now, vnode, sorted(written.items()), shape)


def _changes(
    spec: PStateSpec,
    now: CommitHistory,
    vnode: int,
    written: Sequence[tuple[bytes, bytes | None]],
    shape: ExportShape,
) -> Iterator[pa.RecordBatch]:
    generation = now.generation(spec.name, vnode)
    convert = Converter(spec, generation) if generation < spec.generation else None
    several = bool(shape.position) or len(spec.codecs) > 1
    entries = iter(written)
    while page := list(islice(entries, _ROWS)):
        if several:
            page = [each for each in page if stands_at(each[0], spec.node, shape.position)]
        if convert is not None:
            page = [(key, None if v is None else convert(key, v)) for key, v in page]
        if not page:
            continue
        batch = entries_batch(spec, shape.entries, shape.position, page)
        gone = pa.array([value is None for _, value in page], pa.bool_())
        numbers = pa.array(np.full(len(page), now.commit_id), pa.int64())
        yield pa.RecordBatch.from_arrays([numbers, gone, *batch.columns], schema=shape.changes)


def _sets(
    spec: PStateSpec, view: PStateView, vnode: int, shape: ExportShape
) -> Iterator[pa.RecordBatch]:
    """A row for each set of a vnode, its elements in a list."""
    depth = len(shape.entries) - 1 + len(shape.position)
    several = bool(shape.position) or len(spec.codecs) > 0
    entries = (
        key
        for key, _ in view.scan(vnode)
        if not several or stands_at(key, spec.node, shape.position)
    )
    page: list[bytes] = []
    counts: list[int] = []
    for _, group in groupby(entries, lambda key: _prefix(key, depth)):
        elements = list(group)
        page += elements
        counts.append(len(elements))
        if len(page) >= _ROWS:
            yield _lists(spec, page, counts, shape)
            page, counts = [], []
    if page:
        yield _lists(spec, page, counts, shape)


def _prefix(key: bytes, depth: int) -> bytes:
    """The key without its last element: that of the set."""
    position = 0
    for _ in range(depth):
        _, position = decode_element(key, position)
    return key[:position]


def _lists(
    spec: PStateSpec, keys: list[bytes], counts: list[int], shape: ExportShape
) -> pa.RecordBatch:
    entries = entries_batch(spec, shape.entries, shape.position, [(key, b"") for key in keys])
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    firsts = pa.array(offsets[:-1], pa.int32())
    elements = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries.column("element"))
    columns = [column.take(firsts) for column in entries.columns[:-1]]
    return pa.RecordBatch.from_arrays([*columns, elements], schema=shape.schema)
