"""Forgets rows of a join that no partner can come for any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.keys.columns import encode_columns
from atoll.codec.keys.elements import encode_element
from atoll.codec.scalars import INT64_MIN
from atoll.schema import Scalar
from atoll.steps.forgetting import TIME_BYTES, due_ms, time_of
from atoll.topology.times import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.engine.step import Work
    from atoll.steps.changing_join.bags import Bag
    from atoll.steps.changing_join.bound import BoundChangingJoin

_INT = Scalar("int")


def forgotten_at(bag: Bag) -> list[bytes]:
    """The last time at which a partner of each row may come, as entries begin with it."""
    assert bag.step.keeps_ms is not None
    if not len(bag.old):
        return []
    ends = bag.times() + bag.step.keeps_ms
    return encode_columns([pa.array(ends)], [_INT]).to_bytes()


def forget(
    step: BoundChangingJoin, vnodes: Sequence[int], now: int | None, work: Work
) -> dict[int, int]:
    """Forget what is due; for each vnode that was looked at when there is more."""
    assert step.times is not None
    assert step.within is not None
    span = step.within.upper_ms - step.within.lower_ms
    looked_at = sorted({*vnodes, *work.due(step.times)})
    bound = None if now is None else encode_element(max(now, INT64_MIN), _INT)
    agenda = {}
    for vnode in looked_at:
        times = work.writer(step.times, vnode)
        if bound is not None:
            gone = [key for key, _ in times.scan(None, bound)]
            times.put_many(gone, [None] * len(gone))
            entries = sorted(key[TIME_BYTES:] for key in gone)
            work.writer(step.pstate, vnode).put_many(entries, [None] * len(entries))
        first = next((time_of(key) + 1 for key, _ in times.scan(bound)), NEVER)
        agenda[vnode] = due_ms(first, span)
    return agenda
