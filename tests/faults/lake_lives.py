"""A life of a sink for a lake table: goes on where the table says it is, until it is killed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from harness import volume

with contextlib.suppress(ImportError):  # what takes long is imported once, before the forks
    import pyiceberg.catalog.sql
    import pyiceberg.io.pyarrow  # noqa: F401

from atoll.sinks import Opening, Sink, SinkRows
from atoll.sinks.delta import Delta
from atoll.sinks.iceberg import Iceberg
from atoll.testing.sinks import parcel_of

__all__ = ["ENTRIES", "PARCELS", "live", "sink_of", "states"]

PARCELS = volume(8, 100)
ROWS = pa.schema([("n", pa.int64())])
ENTRIES = pa.schema([("k", pa.int64()), ("old", pa.int64()), ("new", pa.int64())])


def sink_of(kind: str, where: str, table: str) -> Sink:
    """The sink of one of two tables: ``rows``, or ``entries`` of a PState."""
    if kind == "delta":
        return Delta(f"{where}/{table}")
    return Iceberg(f"n.{table}", "c", json.loads(where))


def states() -> Iterator[dict[int, int]]:
    """The PState after each parcel: entries come, change and go."""
    state: dict[int, int] = {}
    for number in range(1, PARCELS + 1):
        state = {**state, number % 7: number, number % 5: -number}
        state.pop(number % 3, None)
        yield dict(state)


def live(kind: str, where: str) -> None:
    """Write what the tables lack, and say each number when it is written."""
    rows, entries = sink_of(kind, where, "rows"), sink_of(kind, where, "entries")
    followed = SinkRows(ENTRIES, ("k",), "entries")
    first = rows.open(Opening("m/t/rows/0", 1, SinkRows(ROWS)))
    second = entries.open(Opening("m/t/entries/0", 1, followed))
    before: dict[int, int] = {}
    for number, state in enumerate(states(), 1):
        if number > (first.last_written() or 0):
            ids = [number * 10 + each for each in range(3)]
            first.write(parcel_of(number, pa.table({"n": pa.array(ids, pa.int64())})))
        if number > (second.last_written() or 0):
            second.write(parcel_of(number, _changes(before, state)))
        before = state
        print("wrote", number, flush=True)


def _changes(before: dict[int, int], now: dict[int, int]) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {"k": key, "old": before.get(key), "new": now.get(key)}
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    return pa.Table.from_pylist(rows, ENTRIES)
