"""Which watermarks a step goes by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from atoll.dataflow import operators as op

if TYPE_CHECKING:
    from atoll.dataflow.times import Clock

__all__ = ["clock_of", "upstream"]


def clock_of(operator: op.Operator) -> Clock:
    """The watermarks that rows have after an operator: on each way the nearest; () if none."""
    found: set[str] = set()
    for each in upstream(operator):
        if isinstance(each, op.Watermark):
            found.add(each.name)
        elif not each.inputs or _holds_back(each):
            return ()
    return tuple(sorted(found))


def _holds_back(operator: op.Operator) -> bool:
    """Whether rows come out later than they came, so that by their watermark they may be late."""
    if isinstance(operator, op.Process):
        return operator.on_timer is not None and operator.clock != ()
    return isinstance(operator, op.WindowAgg | op.IncrementalJoin)


def upstream(operator: op.Operator) -> Iterator[op.Operator]:
    """The operator and all above it, each once; nothing above a watermark."""
    seen: set[op.Operator] = set()
    waiting = [operator]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            if not isinstance(each, op.Watermark):
                waiting.extend(each.inputs)
