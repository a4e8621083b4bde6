"""What the depot tests share: specs, reading everything back, a clock to set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotReader, DepotSpec, HashBy

DDL = "k string, v long"


def spec_of(ddl: str = DDL, partitions: int = 2, **options: Any) -> DepotSpec:
    """A spec that hashes the first field unless told otherwise."""
    schema = parse_ddl(ddl)
    options.setdefault("partitioner", HashBy(schema.names[0]))
    return DepotSpec("depot", schema, partitions, **options)


def all_rows(depot: Depot | DepotReader) -> list[list[dict[str, Any]]]:
    """Per depot partition, every record that is there, in order of offset."""
    bounds = zip(depot.start_offsets(), depot.end_offsets(), strict=True)
    return [
        depot.read(partition, start, end).to_pylist()
        for partition, (start, end) in enumerate(bounds)
    ]


def all_values(depot: Depot | DepotReader) -> list[int]:
    """The ``v`` of every record, sorted."""
    return sorted(row["v"] for rows in all_rows(depot) for row in rows)


def numbers(first: int, count: int) -> list[dict[str, Any]]:
    """Records with rising ``v``."""
    return [{"k": f"k{n % 7}", "v": n} for n in range(first, first + count)]


def segments(folder: Path) -> list[Path]:
    """The segment files, oldest first."""
    return sorted((folder / "segments").glob("*.seg"))


def table(first: int, count: int) -> pa.Table:
    """As :func:`numbers`, for many."""
    values = pa.array(range(first, first + count), pa.int64())
    return pa.table({"k": pa.array([f"k{n % 7}" for n in range(count)]), "v": values})


class Clock:
    """Seconds that stand still until told."""

    def __init__(self, now: float = 1000.0) -> None:
        """Begin at a time."""
        self.now = now

    def __call__(self) -> float:
        """The time."""
        return self.now
