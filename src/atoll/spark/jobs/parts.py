"""Runs a function over parts of something as one tagged Spark job: a task per part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

_RESULTS = "part long, result binary"


def run_parts(
    session: SparkSession,
    tag: str,
    function: Callable[[Any], Any],
    parts: Sequence[Any],
    encode: Callable[[Any], bytes],
) -> list[bytes]:
    """What the function gives for each part, encoded, in the order of the parts.

    Args:
        session: Where it runs.
        tag: By which Spark's own list of jobs finds it; a job group of that name.
        function: Of a part, in a task.
        parts: One task each.
        encode: Turns what the function gives into bytes, in the task.
    """
    given = list(parts)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            results = [encode(function(given[number])) for number in numbers]
            yield pa.RecordBatch.from_pydict(
                {"part": pa.array(numbers, pa.int64()), "result": pa.array(results, pa.binary())}
            )

    session.sparkContext.setJobGroup(tag, tag)
    try:
        frame = session.range(0, len(given), 1, len(given)).mapInArrow(run, _RESULTS)
        found = frame.toArrow().to_pydict()
    finally:
        session.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    by_part = dict(zip(found["part"], found["result"], strict=True))
    return [by_part[number] for number in range(len(given))]
