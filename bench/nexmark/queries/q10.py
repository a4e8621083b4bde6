"""Log to files: every bid, in folders by the day and the minute of its time.

Atoll has no sink for files. The rows are appended to a depot, each exactly once, and :func:`write`
brings the depot into Parquet files, a fixed run of offsets at a time: the files of a run are named
by it, so whoever dies while writing, and whoever writes again, leaves every row in one file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds

from nexmark.reading import depot_rows

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from nexmark.site import Site

RUN = 50_000
"""So many offsets of a depot partition are written together."""


def build(site: Site) -> None:
    """Declare it."""
    out = site.output(
        "auction long, bidder long, price long, date_time timestamp, day string, minute string"
    )
    site.bids().select(
        "auction",
        "bidder",
        "price",
        "date_time",
        "date_format(date_time, 'yyyy-MM-dd') AS day",
        "date_format(date_time, 'HH:mm') AS minute",
    ).append_to(out)


def results(app: App) -> list[tuple[object, ...]]:
    """Its rows now."""
    return depot_rows(app)


def write(app: App, folder: Path, run: int = RUN) -> int:
    """Bring what is new into files ``day=.../minute=.../PARTITION-OFFSET-N.parquet``.

    A run that is not full yet is written again with what has come, under the same names; one that
    is full, and marked as written, never again.

    Returns:
        How many rows were written.
    """
    depot, rows = app.depot("results"), 0
    marks = folder / "_written"
    marks.mkdir(parents=True, exist_ok=True)
    for partition, end in enumerate(depot.end_offsets()):
        for first in range(0, end, run):
            name = f"{partition}-{first:012d}"
            if (marks / name).exists():
                continue
            table = depot.read(partition, first, min(first + run, end))
            ds.write_dataset(
                table,
                folder,
                format="parquet",
                partitioning=["day", "minute"],
                partitioning_flavor="hive",
                basename_template=f"{name}-{{i}}.parquet",
                existing_data_behavior="overwrite_or_ignore",
            )
            rows += table.num_rows
            if first + run <= end:
                (marks / name).touch()
    return rows
