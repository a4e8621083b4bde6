"""What sessions in a PState need: ``session_window(...).aggregate(sessions["user"][...], ...)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.aggregates import Accumulate
from atoll.errors import DeclarationError
from atoll.schema import Set
from atoll.steps.windows.window import WINDOW_END, WINDOW_START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.steps.aggregate.writes import Write
    from atoll.topology.declared import Target

_TIMES = [WINDOW_START, WINDOW_END]


def check_sessions(target: Target, writes: Sequence[Write], place: str) -> None:
    """Hold that a session is an entry, and that the entries of two sessions can become one.

    Raises:
        DeclarationError: When the target is no map by key, start and end of a session, or its
            values are not leaves that merge.
    """
    texts = [part.text for part in target.parts]
    keyed = all(part.is_key for part in target.parts) and len(texts) > len(_TIMES)
    if not keyed or texts[-len(_TIMES) :] != _TIMES:
        raise DeclarationError(
            f"sessions cannot go to {target.text}: a session is an entry by key, start and end",
            hint=f"declare Map(..., Map(dt.datetime, Map(dt.datetime, ...))), and aggregate into "
            f'{target.pstate.name}["user"]["{WINDOW_START}"]["{WINDOW_END}"]',
            declared=place,
        )
    apart = [write for write in writes if not _merges(write, target)]
    if apart or len(writes) > 1:
        text = (apart[0].target if apart else target).text
        raise DeclarationError(
            f"{text} cannot be merged when two sessions become one",
            hint="use aggregates that combine into a value, or into a struct without Map and Set: "
            "agg.count, agg.sum, agg.collect_list, agg.approx_count_distinct",
            declared=place,
        )
    if target.pstate.initial is not None:
        raise DeclarationError(
            f"PState {target.pstate.name!r} has an initial value, and sessions begin with a row",
            hint="leave initial= out",
            declared=target.pstate.place,
        )


def _merges(write: Write, target: Target) -> bool:
    """Whether what a write makes of two sessions becomes what it makes of one."""
    whole = write.target.parts == target.parts  # and no entries below a session
    single = whole and write.exploded is None and not isinstance(write.target.node, Set)
    combined = not any(isinstance(each, Accumulate) for _, each in write.fields)
    return single and combined and not write.distinct and not write.deletes
