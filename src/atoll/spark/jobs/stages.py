"""The stages of Spark's running jobs, by the tag that their jobs carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def stages_of(context: SparkContext, tag: str) -> set[int]:
    """The stages of the jobs that carry a tag and run, as far as Spark's status tells."""
    scala: Any = context._jsc.sc()  # noqa: SLF001 - Python's tracker has no tags
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, scala.statusTracker().getJobIdsForTag(tag))
    return {stage for job in jobs if job is not None for stage in job.stageIds}
