"""How the results of queries are read back as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atoll.cluster.app import App

__all__ = ["depot_rows"]


def depot_rows(app: App, depot: str = "results") -> list[tuple[object, ...]]:
    """All records of a depot, as tuples."""
    there = app.depot(depot)
    rows: list[tuple[object, ...]] = []
    for partition, (start, end) in enumerate(
        zip(there.start_offsets(), there.end_offsets(), strict=True)
    ):
        if end > start:
            rows += [tuple(row.values()) for row in there.read(partition, start, end).to_pylist()]
    return rows
