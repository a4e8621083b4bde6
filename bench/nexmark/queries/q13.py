"""Bounded side input: each bid beside the row of a small table that does not change.

The table is part of the module: its rows go with the function to the tasks, as a file that every
task reads would. One that changes is a depot whose rows a PState keeps, and a ``lookup`` in that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from atoll.cluster.app import App
    from nexmark.site import Site

KEYS = 10_000
KEY = pa.array(range(KEYS), pa.int64())
VALUE = pa.array([str(key) for key in range(KEYS)])


def beside(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The bids with the value of their auction's key; without those that have none."""
    for batch in batches:
        at = pc.index_in(batch["key"], KEY)
        found = batch.drop_columns(["key"]).append_column("value", VALUE.take(at))
        yield found.filter(pc.is_valid(at))


def build(site: Site) -> None:
    """Declare it."""
    columns = "auction long, bidder long, price long, date_time timestamp, value string"
    bids = site.bids().select("auction", "bidder", "price", "date_time", f"auction % {KEYS} AS key")
    bids.map_batches(beside, emits=columns).append_to(site.output(columns))


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)
