"""Rows of one task that belong to one session, found before they cross the exchange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from atoll.engine.exchange.grouping import Grouping, group
from atoll.steps.windows.bound import TIMES


def partial_sessions(keys: Sequence[pa.Array]) -> tuple[Grouping, list[pa.Array]]:
    """The rows by session, as far as these rows tell, each in arrival order.

    Args:
        keys: For each row the end and the start of its own session, all equally long, and its
            keys.

    Returns:
        The groups, and for each group its end, its start and its keys.
    """
    rows = len(keys[0])
    ends, starts = (column.cast(pa.int64()).to_numpy() for column in keys[:TIMES])
    by_key = group(list(keys[TIMES:]), rows)
    owner = np.empty(rows, np.int64)
    owner[by_key.order] = np.repeat(np.arange(len(by_key)), np.diff(by_key.starts, append=rows))
    order = np.lexsort((starts, owner))
    begins = np.ones(rows, np.bool_)
    same = owner[order][1:] == owner[order][:-1]
    begins[1:] = ~same | (starts[order][1:] >= ends[order][:-1])
    session = np.empty(rows, np.int64)
    session[order] = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    last = np.append(first[1:], rows) - 1
    made = [keys[0].take(pa.array(order[last])), keys[1].take(pa.array(order[first]))]
    made += [key.take(pa.array(order[first])) for key in keys[TIMES:]]
    return Grouping(np.argsort(session, kind="stable"), first), made
