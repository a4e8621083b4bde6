"""Which columns of the records a job's frames use, as Spark's optimizer finds them.

What reads records is opaque to Spark, so it asks for all of their columns, and each passes from
Python to the JVM and from columns to rows. Once per plan the optimizer is asked which of them
anything above uses; the others are then read as nulls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_Used = frozenset[str] | None


def columns_used(frames: Sequence[DataFrame], readers: Sequence[str]) -> dict[str, frozenset[str]]:
    """For each reader the columns used, where they are not all.

    Args:
        frames: All the frames of a job.
        readers: The names of the functions that read records.
    """
    found: dict[str, _Used] = {}
    for frame in frames:
        plan: Any = frame._jdf  # noqa: SLF001 - no public way
        for reader, used in _walk(plan.queryExecution().optimizedPlan(), None, set(readers)):
            known = found.get(reader, frozenset())
            found[reader] = None if used is None or known is None else known | used
    return {reader: used for reader, used in found.items() if used is not None}


def lasts(frame: DataFrame) -> bool:
    """Whether the frame's rows depend on those read alone, so that a later run may use its plan.

    Not with ``rand()`` or ``uuid()``, whose seeds are part of a plan; nor with a subquery, for a
    plan knows which files a table had.
    """
    plan: Any = frame._jdf  # noqa: SLF001 - no public way
    analyzed = plan.queryExecution().analyzed()
    return bool(analyzed.deterministic() and analyzed.subqueriesAll().isEmpty())


def _walk(node: Any, used: _Used, readers: set[str]) -> Iterator[tuple[str, _Used]]:
    """What is used of each reader at or below a plan's node, of which the nodes above use ``used``.

    The optimizer puts a projection right above whatever yields columns that nobody uses; filters
    may stand between. Of anything that stands below another node, all columns count as used.
    """
    name = node.nodeName()
    if name == "MapInArrow":
        function = node.functionExpr().name()
        if function in readers:
            yield function, used
            return
    if name in ("Project", "Aggregate"):
        used = referenced(node)
    elif name == "Filter" and used is not None:
        used |= referenced(node)
    else:
        used = None
    children = node.children()
    for index in range(children.size()):
        yield from _walk(children.apply(index), used, readers)


def referenced(node: Any) -> frozenset[str]:
    """The columns that a plan's node reads of those below it."""
    attributes = node.references().toSeq()
    return frozenset(attributes.apply(index).name() for index in range(attributes.size()))
