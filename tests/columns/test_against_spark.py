"""Spark is the definition: every certified form gives what Spark gives, bit for bit.

Many expressions of every form, over pairs of edge values of every type, in a few Spark queries.
Types, values and the rows that fail must be the same.
"""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
import spark_grid as grid
from spark_differences import as_interpreted, differences
from spark_edges import edge_values

from atoll.columns.reading import computed
from atoll.columns.types import NotCertifiedError

DRAWN_MIN = 100
FAMILIES = (
    grid.operators,
    grid.decimals,
    grid.numbers,
    grid.choices,
    grid.casts,
    grid.texts,
    grid.patterns,
    grid.hashes,
    grid.times_and_parts,
    grid.nested,
)


@pytest.fixture(scope="module")
def session():
    """The process's own, that computes each expression by itself."""
    from atoll.spark.session import local_session

    session = local_session(2)
    as_interpreted(session, interpreted=True)
    yield session
    as_interpreted(session, interpreted=False)


@pytest.fixture(scope="module")
def rows(session):
    """The edge values, for both."""
    from atoll.spark.analysis import spark_schema

    batch = edge_values()
    table = pa.Table.from_batches([batch])
    return batch, session.createDataFrame(table, spark_schema(batch.schema)).coalesce(1).cache()


def _is_certified(text: str, schema: pa.Schema) -> bool:
    try:
        computed(text, schema)
    except NotCertifiedError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_values_types_and_errors_are_sparks(rows, family):
    """The same types, values and failing rows, over all pairs of edge values."""
    batch, frame = rows
    assert differences(frame, batch, list(dict.fromkeys(family()))) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_what_computes_them_is_shipped_with_a_program(family):
    """Every ninth: data, and functions of modules."""
    schema = edge_values().schema
    for text in list(dict.fromkeys(family()))[::9]:
        assert pickle.loads(pickle.dumps(computed(text, schema))).type is not None


@pytest.mark.slow
def test_expressions_of_expressions(rows):
    """Drawn with a fixed seed: what is not needed is not computed."""
    batch, frame = rows
    texts = [each for each in dict.fromkeys(grid.composed()) if _is_certified(each, batch.schema)]
    assert len(texts) > DRAWN_MIN
    assert differences(frame, batch, texts) == []


@pytest.mark.slow
def test_compiled_by_spark_they_are_the_same(rows, session):
    """A few of all families, as Spark computes them in a query of its users."""
    batch, frame = rows
    texts = [text for family in FAMILIES for text in list(dict.fromkeys(family()))[::97]]
    as_interpreted(session, interpreted=False)
    try:
        assert differences(frame, batch, texts) == []
    finally:
        as_interpreted(session, interpreted=True)
