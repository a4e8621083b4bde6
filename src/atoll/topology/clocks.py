"""Which watermarks a step goes by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from atoll.topology.sources import Source, Tick

if TYPE_CHECKING:
    from atoll.topology.operator import Operator
    from atoll.topology.times import Clock


def clock_of(operator: Operator) -> Clock:
    """The watermarks that rows have after an operator: on each way the nearest; () if none."""
    found: set[str] = set()
    for each in upstream(operator):
        if each.watermark is not None:
            found.add(each.watermark[0])
        elif not each.inputs or each.holds_back:
            return ()
    return tuple(sorted(found))


def upstream(operator: Operator) -> Iterator[Operator]:
    """The operator and all above it, each once; nothing above a watermark."""
    seen: set[Operator] = set()
    waiting = [operator]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            if each.watermark is None:
                waiting.extend(each.inputs)


def watermarks_of(operator: Operator) -> str:
    """The watermarks of :func:`clock_of` by what they are, not by what they are called."""
    clock = clock_of(operator)
    found = dict(each.watermark for each in upstream(operator) if each.watermark is not None)
    return ", ".join(sorted(found[name] for name in clock))


def origins_of(operator: Operator) -> list[str]:
    """The depots, ticks and PStates that the rows come from, sorted."""
    found: set[str] = set()
    waiting, seen = [operator], {operator}
    while waiting:
        each = waiting.pop()
        found.update(sources_of(each))
        new = [before for before in each.inputs if before not in seen]
        seen.update(new)
        waiting.extend(new)
    return sorted(found)


def sources_of(operator: Operator) -> tuple[str, ...]:
    """The depot, tick or PState that rows come from at an operator; none elsewhere."""
    match operator:
        case Source(depot=depot):
            return (depot.name,)
        case Tick(tick=tick):
            return (tick.name,)
    return () if operator.inputs else tuple(each.name for each in operator.reads)
