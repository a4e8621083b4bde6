"""Which rows ``over`` can take, when a total over the last rows of one does not fit.

The row at fault is the one at which it would no longer fit, in the order of arrival: the rows after
it go over those that were taken, as if it had not come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.by_key import rows_by_key
from atoll.engine.exchange.careful import Refusing, sift, tried

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from atoll.errors import AtollError
    from atoll.steps.last_rows.bind import BoundLastRows
    from atoll.topology.usercode import Rejects

_Compute = Callable[[pa.Table], Any]


def takeable(step: BoundLastRows, rows: pa.Table, compute: _Compute, rejects: Rejects) -> pa.Table:
    """The rows that can be taken; the others go to ``rejects``.

    Args:
        step: The step.
        rows: What came, in its order.
        compute: Computes the columns of rows and writes nothing; raises when one does not fit.
        rejects: Where rows go that do not.
    """
    if tried(lambda: compute(rows)) is None:
        return rows
    by_key = rows_by_key(step, step.elements, rows)

    def of_keys(first: int, stop: int) -> AtollError | None:
        places = by_key.order[by_key.starts[first] : by_key.starts[stop]]
        return tried(lambda: compute(_taken(rows, places)))

    refused: dict[int, AtollError] = {}
    for number, _ in sift(0, len(by_key.keys), of_keys):
        places = by_key.order[by_key.starts[number] : by_key.starts[number + 1]]
        refused |= _refused(rows, places, compute)
    refusing = Refusing(step, rejects)
    for place, error in sorted(refused.items()):
        refusing.refuse(rows, place, error)
    kept = np.ones(rows.num_rows, np.bool_)
    kept[list(refused)] = False
    return rows.filter(pa.array(kept)).combine_chunks()


def _refused(rows: pa.Table, places: NDArray[np.int64], compute: _Compute) -> dict[int, AtollError]:
    """The rows of one key that do not fit behind those taken before them."""
    known = places[:0]

    def take(first: int, stop: int) -> AtollError | None:
        nonlocal known
        more = np.concatenate([known, places[first:stop]])
        error = tried(lambda: compute(_taken(rows, more)))
        if error is None:
            known = more
        return error

    return {int(places[each]): error for each, error in sift(0, len(places), take)}


def _taken(rows: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    return rows.take(pa.array(np.sort(places))).combine_chunks()
