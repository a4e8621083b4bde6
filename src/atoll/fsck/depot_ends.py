"""Compares where the depots end with how far they were read.

The end of a depot's newest segment may be torn without being damage: nobody was told that it is
stored. But what a microbatch has read was there, so a depot that ends before that has lost it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from atoll.depot.reader import DepotReader
from atoll.errors import AtollError
from atoll.microbatch.commits.history import latest_commit
from atoll.microbatch.plans.planning import lost_records
from atoll.storage.folders import depot_folder

if TYPE_CHECKING:
    from atoll.fsck.findings import Report
    from atoll.storage.roots import RootStore


_COST = "the topology does not start: records that it has processed are lost"


def check_depot_ends(store: RootStore, module: str, topology: str, report: Report) -> None:
    """Add to the report the depots of the module that end before what a topology has read."""
    try:
        done = latest_commit(store, module, topology).ends()
    except (AtollError, msgspec.MsgspecError):
        return  # told already
    for depot, offsets in done.items():
        folder = depot_folder(store.root, module, depot)
        try:
            ends = list(DepotReader(folder, pa.schema([])).end_offsets())
        except (AtollError, msgspec.MsgspecError):
            continue  # told already
        lost = lost_records({depot: offsets}, {depot: ends}) if ends else None
        if lost is not None:
            report.damage(str(depot_folder(Path(), module, depot)), lost.message, _COST)
