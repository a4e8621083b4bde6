"""What the values at a place of a PState mean once something is folded into it."""

from __future__ import annotations

from atoll.steps.aggregate.writes import Write
from atoll.topology.kept.hidden import told
from atoll.topology.kept.meanings import Written


def written(write: Write, gap_ms: int | None = None) -> list[Written]:
    """What a write folds into a PState.

    Args:
        write: What was declared.
        gap_ms: For entries that are sessions the gap that ends one.
    """
    distinct = dict(write.distinct)
    keys = [part.text for part in write.target.key_parts]
    if write.exploded is not None:
        keys = [
            f"the keys of {write.exploded.expression}" if key == write.exploded.key else key
            for key in keys
        ]
    by = f" by {', '.join(keys)}" if keys else ""
    by += "" if gap_ms is None else f", in sessions with a gap of {gap_ms} ms"
    position = [part.text for part in write.target.parts if not part.is_key]
    found = []
    for name, each in write.fields:
        text = told(distinct.get(name, each))
        if write.exploded is not None:
            text = text.replace(write.exploded.value, f"the values of {write.exploded.expression}")
        place = ".".join((*position, *([] if name is None else [name])))
        found.append(Written(write.target.pstate.name, place, text + by))
    return found
