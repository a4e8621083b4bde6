"""Reading a whole depot back."""

from __future__ import annotations

import pyarrow as pa

from atoll.depot import Depot, DepotReader

__all__ = ["all_rows"]


def all_rows(depot: Depot | DepotReader) -> list[pa.Table]:
    """Per depot partition, every record that is there, in order of offset."""
    bounds = zip(depot.start_offsets(), depot.end_offsets(), strict=True)
    return [depot.read(each, start, end) for each, (start, end) in enumerate(bounds)]
