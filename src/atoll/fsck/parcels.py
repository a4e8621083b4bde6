"""Checks rows on their way: those sent to depots of other modules, and those kept for sinks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from atoll.errors import AtollError, NotFoundError
from atoll.fsck.files import check_rows_file
from atoll.microbatch.parcels.box import Parcels, boxes_for
from atoll.microbatch.parcels.sink_box import SinkBox

if TYPE_CHECKING:
    from atoll.fsck.findings import Report
    from atoll.storage.roots import RootStore


def check_parcels(store: RootStore, module: str, depot: str, report: Report) -> None:
    """Add to the report the parcels for a depot that are damaged, or have lost rows."""
    for box in boxes_for(store, module, depot):
        _check_box(box, f"depot {box.depot}", report, lambda _: None)


def check_sinks(store: RootStore, module: str, topology: str, report: Report) -> None:
    """Add to the report the parcels for a topology's sinks that are damaged, or have lost rows."""
    for name in store.folders(f"{module}/{topology}/sinks"):
        box = SinkBox(store, module, topology, name)
        with contextlib.suppress(AtollError, msgspec.MsgspecError):  # which its sequence has told
            box.taken()
            _check_box(box, f"sink {name}", report, partial(_waits, box))


def _waits(box: SinkBox, number: int) -> bool:
    return box.taken().number < number


def _check_box(
    box: Parcels, target: str, report: Report, waits: Callable[[int], bool | None]
) -> None:
    """Check what lies in one box.

    Args:
        box: The parcels.
        target: What they are for, in words.
        report: Where findings go.
        waits: Whether a parcel of that number is taken, now, and needs none of its rows, or all of
            them; None where only its rows tell: without any it was taken.
    """
    needed: set[str] = set()
    for number in box.objects.numbers():
        try:
            needed |= _check(box, number, target, report, waits)
        except NotFoundError:
            continue  # dropped meanwhile
        except (AtollError, msgspec.MsgspecError) as error:
            cost = "it and later ones of this topology wait, or its number may come again"
            report.damage(box.objects.name(number), str(error), cost)
    for name in box.rows_files():
        if name not in needed and box.store.exists(name):
            report.leftover(name, "rows that were taken, or never sent")


def _check(
    box: Parcels, number: int, target: str, report: Report, waits: Callable[[int], bool | None]
) -> set[str]:
    """Read a parcel and its rows; their names."""
    parcel = box.read(number)
    report.objects += 1
    if waits(number) is False:
        return set()
    names = {file.name for file in parcel.files}
    there = [file for file in parcel.files if box.store.exists(file.name)]
    cost = f"{{}} rows do not reach {target}, and later ones wait behind them"
    for file in there:
        report.files += 1
        problem = check_rows_file(box.store, file)
        if problem is not None and box.store.exists(file.name):
            report.damage(file.name, problem, cost.format(file.rows))
    for name in sorted(names - {file.name for file in there}):
        stays = waits(number) or any(box.store.exists(file.name) for file in there)
        if stays and box.objects.exists(number):
            report.damage(name, "it is missing", cost.format(parcel.records))
    return names
