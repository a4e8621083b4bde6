"""Which watermarks a step goes by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from atoll.steps.changes.declare import Changes
from atoll.steps.incremental_join.declare import IncrementalJoin
from atoll.steps.process.declare import Process
from atoll.steps.sources.source import Source
from atoll.steps.sources.tick import Tick
from atoll.steps.windows.declare import WindowAgg
from atoll.steps.windows.watermark import Watermark
from atoll.topology.operator import Operator

if TYPE_CHECKING:
    from atoll.topology.times import Clock

__all__ = ["clock_of", "origins_of", "upstream", "watermarks_of"]


def clock_of(operator: Operator) -> Clock:
    """The watermarks that rows have after an operator: on each way the nearest; () if none."""
    found: set[str] = set()
    for each in upstream(operator):
        if isinstance(each, Watermark):
            found.add(each.name)
        elif not each.inputs or _holds_back(each):
            return ()
    return tuple(sorted(found))


def _holds_back(operator: Operator) -> bool:
    """Whether rows come out later than they came, so that by their watermark they may be late."""
    if isinstance(operator, Process):
        return operator.on_timer is not None and operator.clock != ()
    return isinstance(operator, WindowAgg | IncrementalJoin)


def upstream(operator: Operator) -> Iterator[Operator]:
    """The operator and all above it, each once; nothing above a watermark."""
    seen: set[Operator] = set()
    waiting = [operator]
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            yield each
            if not isinstance(each, Watermark):
                waiting.extend(each.inputs)


def watermarks_of(operator: Operator) -> str:
    """The watermarks of :func:`clock_of` by what they are, not by what they are called."""
    clock = clock_of(operator)
    marks = [each for each in upstream(operator) if isinstance(each, Watermark)]
    found = {each.name: each.hidden.name or ".".join(each.hidden.belongs) for each in marks}
    return ", ".join(sorted(found[name] for name in clock))


def origins_of(operator: Operator) -> list[str]:
    """The depots, ticks and PStates that the rows come from, sorted."""
    found: set[str] = set()
    waiting, seen = [operator], {operator}
    while waiting:
        each = waiting.pop()
        match each:
            case Source(depot=depot):
                found.add(depot.name)
            case Tick(tick=tick):
                found.add(tick.name)
            case Changes(pstate=pstate):
                found.add(pstate.name)
        new = [before for before in each.inputs if before not in seen]
        seen.update(new)
        waiting.extend(new)
    return sorted(found)
