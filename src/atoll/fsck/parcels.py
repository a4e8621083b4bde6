"""Checks rows that topologies of other modules have sent to a depot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from atoll.errors import AtollError, NotFoundError
from atoll.fsck.files import check_rows_file
from atoll.microbatch.parcels.box import ParcelBox, boxes_for

if TYPE_CHECKING:
    from atoll.fsck.findings import Report
    from atoll.storage.roots import RootStore


def check_parcels(store: RootStore, module: str, depot: str, report: Report) -> None:
    """Add to the report the parcels for a depot that are damaged, or have lost rows."""
    for box in boxes_for(store, module, depot):
        needed: set[str] = set()
        for number in box.objects.numbers():
            try:
                needed |= _check(box, number, report)
            except NotFoundError:
                continue  # dropped meanwhile
            except (AtollError, msgspec.MsgspecError) as error:
                cost = "it and later ones of this topology wait, or its number may come again"
                report.damage(box.objects.name(number), str(error), cost)
        for name in box.rows_files():
            if name not in needed and store.exists(name):
                report.leftover(name, "rows that were taken, or never sent")


def _check(box: ParcelBox, number: int, report: Report) -> set[str]:
    """Read a parcel and its rows; their names. One without any rows was taken."""
    parcel = box.read(number)
    report.objects += 1
    names = {file.name for file in parcel.files}
    there = [file for file in parcel.files if box.store.exists(file.name)]
    lost = [] if not there or len(there) == len(names) else [*names - {f.name for f in there}]
    for file in there:
        report.files += 1
        problem = check_rows_file(box.store, file)
        if problem is not None and box.store.exists(file.name):
            report.damage(file.name, problem, _cost(file.rows, box))
    for name in lost:
        if box.objects.exists(number) and any(box.store.exists(file.name) for file in there):
            report.damage(name, "it is missing", _cost(parcel.records, box))
    return names


def _cost(rows: int, box: ParcelBox) -> str:
    return f"{rows} rows do not reach depot {box.depot}, and later ones wait behind them"
