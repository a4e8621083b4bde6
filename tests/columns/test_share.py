"""What share of the expressions of TPC-H's queries and of Nexmark's needs no Spark: all of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tpch import NEXMARK, NEXMARK_ROWS, TPCH, TPCH_ROWS

from atoll.columns.reading import computed
from atoll.columns.types import NotCertifiedError

QUERIES = 22


def _left(expressions, rows):
    """What is not certified, and why."""
    found = {}
    for query, texts in expressions.items():
        for text in texts:
            try:
                computed(text, rows)
            except NotCertifiedError as error:
                found[query, text] = str(error)
    return found


def test_all_of_tpch():
    """Each of its 22 queries."""
    assert len(TPCH) == QUERIES
    assert _left(TPCH, TPCH_ROWS) == {}


def test_all_of_nexmark():
    """Those of its queries that compute anything row by row."""
    assert _left(NEXMARK, NEXMARK_ROWS) == {}


@pytest.mark.parametrize(("expressions", "rows"), [(TPCH, TPCH_ROWS), (NEXMARK, NEXMARK_ROWS)])
@pytest.mark.slow
def test_their_types_are_sparks(expressions, rows):
    """Spark reads them as the same types."""
    from atoll.spark.analysis import spark_schema
    from atoll.spark.session import local_session

    texts = list(dict.fromkeys(text for each in expressions.values() for text in each))
    empty = local_session(2).createDataFrame([], spark_schema(rows))
    found = empty.selectExpr(*[f"{text} AS e{at}" for at, text in enumerate(texts)]).toArrow()
    for text, field in zip(texts, found.schema, strict=True):
        assert pa.types.is_nested(field.type) or computed(text, rows).type == field.type, text
