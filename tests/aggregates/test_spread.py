"""Variances and standard deviations: as their definition says, however rows are cut."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, NUMBERS, Rows, check_all, held, of_kind

from atoll import agg
from atoll.codec.values.leaf import leaf_codec
from atoll.errors import DeclarationError
from atoll.schema import as_node

MEASURES = {
    agg.variance: (1, False),
    agg.stddev: (1, True),
    agg.var_pop: (0, False),
    agg.stddev_pop: (0, True),
}


def exact(values, lessened, *, root):
    """The measure by its definition, with fractions."""
    if len(values) <= lessened:
        return None
    fractions = [Fraction(value) for value in values]
    mean = sum(fractions) / len(fractions)
    variance = float(sum((v - mean) ** 2 for v in fractions) / (len(fractions) - lessened))
    return math.sqrt(variance) if root else variance


def near(found, wanted, scale):
    """Whether both are null, or near as far as floats of that size can be."""
    if found is None or wanted is None:
        return found is wanted
    return found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize("kind", NUMBERS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_laws(kind, data):
    """Each measure of random cuts is that of all values at once; nulls are left out."""
    rows = data.draw(of_kind(kind))
    for make, (lessened, root) in MEASURES.items():

        def holds(found, group, lessened=lessened, root=root):
            values = held([row["v"] for row in group])
            return near(found, exact(values, lessened, root=root), 1)

        check_all(make("v"), float, rows, KINDS[kind][2], holds)


def test_large_means_swallow_nothing():
    """Values a little apart, far from zero: a sum of squares would have no digit right."""
    values = [1e9 + each for each in (4.0, 7.0, 13.0, 16.0)]
    rows = Rows([1] * 4, {"v": values, "t": [0] * 4, "id": ["a"] * 4}, [1, 3])
    check_all(agg.variance("v"), float, rows, pa.float64(), lambda found, _: found == 30.0)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_gives_nan(odd):
    """As in Spark, alone or among others, in one part or several; a sample of one is null."""
    for values, cuts in (([odd], []), ([1.0, odd, 2.0], [1]), ([odd, 1.0], [1])):
        rows = Rows([1] * len(values), {"v": values}, cuts)
        rows.columns |= {"t": values, "id": values}
        one = len(values) == 1

        def holds(found, _, one=one):
            return found is None if one else math.isnan(found)

        check_all(agg.stddev("v"), float, rows, pa.float64(), holds)
        check_all(agg.var_pop("v"), float, rows, pa.float64(), lambda f, _: math.isnan(f))


def test_by_column_as_by_row():
    """What a table shows is what a point read shows."""
    states = [pa.array([0, 1, 4, None]), pa.array([0.0, 2.0, 3.0, None])]
    columns = [*states, pa.array([0.0, 0.0, 18.0, None])]
    for measure in ("var_samp", "stddev_samp", "var_pop", "stddev_pop"):
        codec = leaf_codec(as_node(float), {"": f"spread:{measure}"})
        stored = codec.encode_columns(columns)
        shown = codec.finish_columns(codec.decode_columns(stored)).to_pylist()
        assert shown == [codec.decode(data) for data in stored]
        assert shown[0] is None
        assert shown[3] is None


def test_refusals():
    """Numbers alone, into floats."""
    with pytest.raises(DeclarationError, match="needs numbers"):
        agg.stddev("v").check(as_node(float), [pa.string()])
    with pytest.raises(DeclarationError, match=r"agg\.stddev\(v\) gives a float"):
        agg.stddev("v").check(as_node(int), [pa.int64()])
