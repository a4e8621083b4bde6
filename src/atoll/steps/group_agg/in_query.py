"""Spark SQL's aggregates in queries: as folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.columns.types import NotCertifiedError
from atoll.steps.fold.bind import bound_fold
from atoll.steps.fold.in_query import folding
from atoll.steps.group_agg.certified import certified_agg
from atoll.topology.binding import StepName
from atoll.topology.querying.step import in_batches, one_after_the_other

if TYPE_CHECKING:
    from atoll.steps.group_agg.declare import GroupAgg
    from atoll.topology.querying.step import Done, InQuery, Run


def aggregates(step: GroupAgg, query: InQuery) -> Done:
    """What is aggregated, the fold, and its results as Spark's types.

    Raises:
        DeclarationError: When one of its expressions is not certified.
    """
    rows = query.rows
    try:
        agg = certified_agg(step, rows)
    except NotCertifiedError as error:
        raise step.needs_spark(error) from None
    runs: list[Run] = []
    if agg.before is not None:
        before = agg.before.certified(rows)
        rows = before.schema([rows])
        runs.append(in_batches(before))
    fold = bound_fold(agg.fold, StepName(0, step.title, step.place), rows)
    after = agg.after.certified(fold.emitted)
    return after.schema([fold.emitted]), one_after_the_other(
        [*runs, folding(fold), in_batches(after)]
    )
