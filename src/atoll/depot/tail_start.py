"""Where a tail begins: what may be said of it, and the offsets that it comes to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from atoll.depot.receipt import Awaited, Receipt, awaited, is_token
from atoll.depot.start import StartFrom, after_timestamp, beginning, end
from atoll.errors import DepotError, ReceiptError, UsageError

if TYPE_CHECKING:
    from atoll.depot.tail import Tailed

Start = StartFrom | Receipt | Awaited | Mapping[int, int] | int | str | None
"""Where to begin: ``atoll.start...``, behind a receipt or a position, or at offsets."""

_FORMS = "beginning, end, an offset, a time such as 2026-01-31T12:00:00Z, or a position"


def read_start(text: str) -> Start:
    """What a person or a request says: beginning, end, an offset, a time or a position.

    Raises:
        UsageError: When it is none of these.
    """
    if text == "beginning":
        return beginning()
    if text == "end":
        return end()
    if is_token(text):
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return after_timestamp(dt.datetime.fromisoformat(text))
    except ValueError:
        raise UsageError(f"{text[:60]!r} is no place to begin", hint=f"say {_FORMS}") from None


def first_offsets(depot: Tailed, start: Start, partition: int | None) -> dict[int, int]:
    """By depot partition that is read, the offset of the first record.

    Raises:
        UsageError: When the start does not say it for each, or there is no such depot partition.
        ReceiptError: When it is a receipt, a position or a token of another depot, or none.
        DepotError: When an offset lies behind all that the depot holds.
    """
    ends = depot.end_offsets()
    if partition is not None and not 0 <= partition < len(ends):
        raise UsageError(
            f"there is no depot partition {partition}",
            hint=f"they are 0 to {len(ends) - 1}",
            depot=depot.about.name,
        )
    wanted = range(len(ends)) if partition is None else (partition,)
    if start is None or isinstance(start, StartFrom):
        resolved = depot.resolve_start(beginning() if start is None else start)
        return {part: min(resolved[part], ends[part]) for part in wanted}
    given = _given(depot, start, wanted)
    for part in wanted:
        _check(depot, part, given.get(part), ends[part])
    return {part: given[part] for part in wanted}


def _given(
    depot: Tailed, start: Receipt | Awaited | Mapping[int, int] | int | str, wanted: Sequence[int]
) -> Mapping[int, int]:
    """The offsets that are said, whatever depot partitions they are of."""
    if isinstance(start, Mapping):
        return start
    if isinstance(start, int):
        if len(wanted) > 1:
            raise UsageError(
                f"offset {start} is not clear: depot {depot.about.name!r} has {len(wanted)} depot "
                "partitions, each with offsets of its own",
                hint="name one with partition=, or give offsets by depot partition: {0: 5, 1: 7}",
            )
        return {wanted[0]: start}
    told, about = awaited(start), depot.about
    if (told.module, told.depot) != (about.module, about.name):
        raise ReceiptError(
            f"it is a position in depot {told.depot!r} of module {told.module!r}, not in "
            f"{about.name!r} of {about.module!r}",
            hint="give the one that this depot's batches or appends came with",
        )
    return told.ends


def _check(depot: Tailed, partition: int, offset: int | None, end: int) -> None:
    if offset is None:
        raise UsageError(
            f"it is not said where to begin in depot partition {partition}",
            hint="name the one to read with partition=, or give an offset for each",
            depot=depot.about.name,
        )
    if not isinstance(offset, int) or offset < 0:
        raise UsageError(f"{offset!r} is no offset", hint="offsets count from 0")
    if offset > end:
        raise DepotError(
            f"offset {offset} lies behind the last record",
            hint="the next record will be "
            f"{end}; was the root restored from a copy that is older than this position?",
            depot=depot.about.name,
            partition=partition,
        )
