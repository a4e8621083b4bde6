"""Asks Spark and Atoll for the same expressions, and says where their answers differ.

All expressions are columns of one Spark query. ``TryEval`` says on which rows one fails, so that
an error ends no query. Spark interprets the expressions: to compile thousands would take minutes.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.reading import computed
from atoll.columns.tree import Node, RowError, Rows
from atoll.columns.types import NotCertifiedError

__all__ = ["as_interpreted", "by_spark", "differences"]

BAD_ROWS_MAX = 12
"""Of the rows on which Spark fails so many are tried one by one."""
INTERPRETED = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def as_interpreted(session, interpreted: bool):
    """Whether the session shall interpret expressions, each by itself."""
    for name, value in INTERPRETED.items():
        if interpreted:
            session.conf.set(name, value)
        else:
            session.conf.unset(name)


def _tried(text: str, at: int):
    """The expression's value in an array, which is null where the expression fails."""
    from pyspark import SparkContext
    from pyspark.sql import functions
    from pyspark.sql.classic.column import Column

    jvm = SparkContext._active_spark_context._jvm
    bridge = getattr(jvm, "org.apache.spark.sql.classic.ExpressionUtils")
    attempt = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.TryEval")
    whole = functions.array(functions.expr(text))
    return Column(bridge.column(attempt(bridge.expression(whole._jc)))).alias(f"e{at}")


def by_spark(frame, texts: list[str]) -> pa.Table:
    """Of each expression a column of arrays of one value; null where it fails."""
    return frame.select(*[_tried(text, at) for at, text in enumerate(texts)]).toArrow()


def differences(frame, batch: pa.RecordBatch, texts: list[str]) -> list[str]:
    """Where Spark and Atoll differ, in words."""
    found = []
    for text, answer in zip(texts, by_spark(frame, texts).columns, strict=True):
        try:
            different = _difference(batch, text, answer.combine_chunks())
        except NotCertifiedError as error:
            different = str(error)
        found += [f"{text}: {different}"] if different else []
    return found


def _difference(batch: pa.RecordBatch, text: str, answer: pa.Array) -> str:
    words = set(re.findall(r"\w+", text.lower()))
    used = [name for name in batch.schema.names if name in words]
    rows = batch.select(used or batch.schema.names[:1])
    node = computed(text, rows.schema)
    if node.type != answer.type.value_type:
        return f"{node.type}, Spark {answer.type.value_type}"
    failed = answer.is_null()
    if failed.true_count and not node.fails:
        return f"never fails; Spark fails: {rows.filter(failed).slice(0, 1).to_pylist()}"
    wrong = _wrongly_computed(node, rows.filter(failed))
    return wrong or _other_value(node, rows.filter(pc.invert(failed)), answer.flatten())


def _wrongly_computed(node: Node, bad: pa.RecordBatch) -> str:
    for n in range(0, len(bad), 1 + len(bad) // BAD_ROWS_MAX):
        if not _fails(node, bad.slice(n, 1)):
            return f"computed where Spark fails: {bad.slice(n, 1).to_pylist()}"
    return ""


def _other_value(node: Node, good: pa.RecordBatch, expected: pa.Array) -> str:
    try:
        found = node.of(Rows(good))
    except RowError:
        rows = [good.slice(n, 1) for n in range(len(good)) if _fails(node, good.slice(n, 1))]
        return f"fails on {len(rows)} rows that Spark computes: {rows[0].to_pylist()}"
    if isinstance(found, pa.ChunkedArray):
        return "several chunks"
    if _alike(found, expected):
        return ""
    for n in range(len(good)):
        if not _alike(found.slice(n, 1), expected.slice(n, 1)):
            said = f"{found[n].as_py()!r}, Spark {expected[n].as_py()!r}"
            return f"{said}: {good.slice(n, 1).to_pylist()}"
    return "differs"


def _fails(node: Node, batch: pa.RecordBatch) -> bool:
    """Whether some row of a batch cannot be computed."""
    try:
        node.of(Rows(batch))
    except RowError:
        return True
    return False


def _alike(one: pa.Array, other: pa.Array) -> bool:
    """Whether all values are the same, of doubles every bit; NaN is NaN."""
    if pa.types.is_floating(one.type):
        if not one.is_null().equals(other.is_null()):
            return False
        return np.array_equal(_bits(one), _bits(other))
    return bool(one.equals(other))


def _bits(values: pa.Array):
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return plain.view(f"u{numbers.dtype.itemsize}")
