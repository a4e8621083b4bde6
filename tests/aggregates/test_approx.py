"""Approximate aggregates: exact laws of their states, bounded errors of what is shown."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import KINDS, NUMBERS, PACKING, check, check_all, held, of_kind

from atoll import agg
from atoll.aggregates.kernels.histograms import BUCKETS_MAX
from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.errors import DeclarationError, StateError
from atoll.schema import List, as_node

INT, FLOAT = pa.int64(), pa.float64()
ZERO = np.array([0])


def bound(aggregator, node, arrow_type):
    """The aggregate ready to run, and how its state is read."""
    node = as_node(node)
    ready = aggregator.bind(node, [arrow_type], PACKING)
    return ready, leaf_codec(node, aggregator.finishers(node, [arrow_type]))


def state_of(ready, column, cuts=()):
    """The state of a column, cut into parts that are folded and merged one after the other."""
    state = [pa.nulls(1, pa.binary())]
    bounds = sorted({0, len(column), *cuts})
    for start, end in itertools.pairwise(bounds):
        part = column.slice(start, end - start)
        new = ready.fold([part], None, np.arange(len(part)), ZERO)
        state = ready.merge(state, new)
    return state


def shown(codec, state):
    """What a reader sees, by value and by column alike."""
    value = codec.decode(codec.encode_columns(state)[0])
    assert repr([value]) == repr(codec.finish_columns(state).to_pylist())
    return value


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_few_distinct_values_are_counted_exactly(kind, data):
    """Of every type, equal values once, nulls left out; also through lift and reduce."""
    rows = data.draw(of_kind(kind))

    def expected(group):
        return len(set(held([r["v"] for r in group])))

    check(agg.approx_count_distinct("v"), int, rows, KINDS[kind][2], expected)


def test_decimals_are_told_apart_by_their_last_digit():
    """All of their 38 digits count, however few the thread's own context keeps."""
    ready, codec = bound(agg.approx_count_distinct("v"), int, pa.decimal128(38, 18))
    whole = "12345678901234567890.12345678901234567"
    column = pa.array([Decimal(f"{sign}{whole}{n}") for n in range(10) for sign in ("", "-")])
    assert shown(codec, state_of(ready, column.cast(pa.decimal128(38, 18)))) == 20
    few = pa.array([Decimal("0.5"), Decimal("0.25"), Decimal("0.5")], pa.decimal128(38, 18))
    state = state_of(ready, few)
    with localcontext(prec=1):
        assert state_of(ready, few)[0].equals(state[0])


def test_values_that_look_alike_are_told_apart():
    """The empty text, lists, tuples; -0.0 is 0.0 and NaN is NaN."""
    samples = [
        (pa.array(["", "s", "0", None]), 3),
        (pa.array([b"", b"b", b"\xff"]), 3),
        (pa.array([0.0, -0.0, math.nan, -math.nan, 1.0]), 3),
        (pa.array([[1], [], [1, 2], [1]]), 3),
        (pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}]), 2),
        (pa.array([Decimal("1.10"), Decimal("1.1"), Decimal(12345678901234567890)]), 2),
    ]
    for column, count in samples:
        ready, codec = bound(agg.approx_count_distinct("v"), int, column.type)
        assert shown(codec, state_of(ready, column)) == count


@pytest.mark.parametrize("rsd", [0.09, 0.05, 0.02])
def test_many_distinct_values_are_counted_within_the_deviation(rsd):
    """Over some seeds: within four deviations always, within two nearly always."""
    far = 0
    sizes = [300, 3_000, 30_000]
    ready, codec = bound(agg.approx_count_distinct("v", rsd), int, INT)
    for seed, size in itertools.product(range(8), sizes):
        values = np.random.default_rng(seed).choice(10**9, size, replace=False)
        found = shown(codec, state_of(ready, pa.array(values)))
        assert abs(found / size - 1) < 4 * rsd
        far += abs(found / size - 1) > 2 * rsd
    assert far <= 3


@settings(max_examples=40, deadline=None)
@given(
    size=st.sampled_from([1, 7, 8, 30, 200, 400, 900, 5000]),
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(0, 5000), max_size=5),
)
def test_a_sketch_depends_on_the_values_alone(size, seed, cuts):
    """Byte for byte: through every form of the sketch, whatever the cuts and the order."""
    chooser = random.Random(seed)
    values = [chooser.randrange(size * 4) for _ in range(size)]
    shuffled = chooser.sample(values, size)
    ready, _ = bound(agg.approx_count_distinct("v"), int, INT)
    whole = state_of(ready, pa.array(values))
    parts = state_of(ready, pa.array(shuffled), [min(cut, size) for cut in cuts])
    assert whole[0].to_pylist() == parts[0].to_pylist()
    lifted = ready.reduce(ready.lift([pa.array(values)], None), ZERO)
    assert lifted[0].to_pylist() == whole[0].to_pylist()
    assert ready.merge(whole, parts)[0].to_pylist() == whole[0].to_pylist()


# --- percentiles ---------------------------------------------------------------------------


def rank_value(values, p):
    """The value at a rank, as Spark defines it."""
    ordered = sorted(values)
    return float(ordered[max(math.ceil(round(p * len(ordered), 6)), 1) - 1])


def near(found, wanted, error=0.01):
    """Within the error, and a last digit."""
    return abs(found - wanted) <= (error + 1e-9) * abs(wanted)


@pytest.mark.parametrize("kind", NUMBERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_percentiles_are_near_the_values_at_their_ranks(kind, data):
    """Of every type of number, alone and several, whatever the cuts; null where all are."""
    rows = data.draw(of_kind(kind))
    arrow = KINDS[kind][2]
    percentages = data.draw(st.lists(st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]), min_size=1))

    def holds(found, group):
        values = held([r["v"] for r in group])
        if not values:
            return found is None
        wanted = [rank_value(values, p) for p in percentages]
        found = found if isinstance(found, list) else [found]
        return all(near(f, w) for f, w in zip(found, wanted, strict=True))

    check_all(agg.approx_percentile("v", percentages), List(float), rows, arrow, holds)
    del percentages[1:]
    one = agg.approx_percentile("v", percentages[0])
    check_all(one, float, rows, arrow, holds)


@pytest.mark.parametrize("error", [0.0005, 0.01, 0.1])
def test_percentiles_of_many_values(error):
    """Skewed, of both signs, with the error that was asked for."""
    values = np.random.default_rng(5).lognormal(3, 1, 20_000) * np.array([1, -1, 1, 1] * 5_000)
    percentages = [0, 0.01, 0.25, 0.3, 0.5, 0.9, 0.999, 1]
    aggregator = agg.approx_percentile("v", percentages, relative_error=error)
    ready, codec = bound(aggregator, List(float), FLOAT)
    found = shown(codec, state_of(ready, pa.array(values), range(0, 20_000, 997)))
    allowed = max(0.005, error)  # the least error goes up where buckets run out
    for value, p in zip(found, percentages, strict=True):
        assert near(value, rank_value(values, p), allowed)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1, 20, 3000, 9000]),
    spread=st.sampled_from([1, 30, 200]),
    cuts=st.lists(st.integers(0, 9000), max_size=5),
)
def test_a_histogram_depends_on_the_values_alone(seed, size, spread, cuts):
    """Byte for byte, also where buckets run out on the way."""
    generator = np.random.default_rng(seed)
    values = np.exp(generator.uniform(-spread, spread, size)) * generator.choice([1, -1], size)
    values[:: max(size // 5, 1)] = 0.0
    ready, _ = bound(agg.approx_percentile("v", 0.5), float, FLOAT)
    whole = state_of(ready, pa.array(values))
    parts = state_of(
        ready, pa.array(generator.permutation(values)), [min(cut, size) for cut in cuts]
    )
    assert whole[0].to_pylist() == parts[0].to_pylist()
    assert len(whole[0][0].as_py()) <= 2 + 8 * BUCKETS_MAX
    lifted = ready.reduce(ready.lift([pa.array(values)], None), ZERO)
    assert lifted[0].to_pylist() == whole[0].to_pylist()


def test_what_is_no_usual_number():
    """Infinities and the least and greatest floats have places; NaN is the greatest."""
    values = [math.nan, math.inf, 1.7976931348623157e308, 5e-324, 0.0, -5e-324, -1e300, -math.inf]
    ready, codec = bound(
        agg.approx_percentile("v", [i / 8 for i in range(1, 9)]), List(float), FLOAT
    )
    found = shown(codec, state_of(ready, pa.array(values, FLOAT)))
    *low, nan = found
    assert math.isnan(nan)
    assert low == sorted(low)
    assert (low[0], low[3], low[6]) == (-math.inf, 0.0, math.inf)
    assert low[2] < 0 < low[4]
    assert near(low[5], 1.7976931348623157e308)
    assert near(low[1], -1e300)


def test_counts_beyond_32_bits():
    """Merged with itself again and again."""
    ready, codec = bound(agg.approx_percentile("v", 0.5), float, FLOAT)
    state = state_of(ready, pa.array([1.0, 100.0, 100.0]))
    for _ in range(34):
        state = ready.merge(state, state)
    state = ready.merge(state, state_of(ready, pa.array([5.0])))
    assert near(shown(codec, state), 100.0)


def test_codecs_of_estimates_are_kept_in_deployments():
    """As JSON and back; another sketch is another kind of state."""
    for aggregator, node in (
        (agg.approx_count_distinct("v"), int),
        (agg.approx_percentile("v", [0.5, 0.9]), List(float)),
    ):
        _, codec = bound(aggregator, node, INT)
        assert LeafCodec.from_json(codec.to_json()) == codec
        assert codec.hidden
    node = as_node(int)
    sizes = {agg.approx_count_distinct("v", rsd).finisher([INT]) for rsd in (0.09, 0.05, 0.001)}
    assert sizes == {"distinct:8", "distinct:9", "distinct:21"}
    with pytest.raises(DeclarationError, match="does not suit"):
        leaf_codec(node, {"": "percentile:0.01;0.5"})


def test_changed_bytes_of_a_sketch_end_no_process():
    """The library reads past the end of bytes that lie; so whatever is changed, it is asked less.

    3,000 images with up to four bytes changed, or cut: each a number or a refusal.
    """
    rng = random.Random(7)
    ready, codec = bound(agg.approx_count_distinct("v"), int, INT)
    images = []
    for count in (1, 5, 7, 8, 20, 100, 300, 1_000, 20_000):
        state = state_of(ready, pa.array(range(count)))
        images.append(state[0][0].as_py())
        assert abs(shown(codec, state) - count) <= 0.1 * count
    refused = 0
    for _ in range(3_000):
        data = bytearray(rng.choice(images))
        if rng.random() < 0.3:
            del data[rng.randrange(1, len(data)) :]
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(min(len(data), 40))] = rng.randrange(256)
        try:
            codec.decode(codec.encode_columns([pa.array([bytes(data)])])[0])
        except StateError:
            refused += 1
    assert 1_000 < refused < 3_000


def test_damaged_states_are_refused():
    """Never read as a number."""
    _, codec = bound(agg.approx_count_distinct("v"), int, INT)
    for data in (b"\x01", b"\xff" * 40):
        with pytest.raises(StateError, match="no sketch"):
            codec.decode(codec.encode_columns([pa.array([data])])[0])
    _, codec = bound(agg.approx_percentile("v", 0.5), float, INT)
    for data in (b"\x01", b"\x00\x00abc", b"\x00\x02" + bytes(12)):
        with pytest.raises(StateError, match="no histogram"):
            codec.decode(codec.encode_columns([pa.array([data])])[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.approx_count_distinct("v", 0.5), "rsd=0.5"),
        (lambda: agg.approx_count_distinct("v", "x"), "rsd='x'"),
        (lambda: agg.approx_percentile("v", 1.5), "of 1.5"),
        (lambda: agg.approx_percentile("v", []), r"of \[\]"),
        (lambda: agg.approx_percentile("v", [0.5, True]), "of "),
        (lambda: agg.approx_percentile("v", 0.5, relative_error=0), "relative_error=0"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(make, message):
    """With a hint."""
    with pytest.raises(DeclarationError, match=message) as caught:
        make()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("aggregator", "node", "arrow_type", "message"),
    [
        (agg.approx_count_distinct("v"), float, INT, "gives an int"),
        (agg.approx_count_distinct("v"), int, pa.map_(INT, INT), "no values of type map"),
        (agg.approx_percentile("v", 0.5), float, pa.string(), "needs numbers"),
        (agg.approx_percentile("v", 0.5), int, INT, "gives a float"),
        (agg.approx_percentile("v", [0.5]), float, INT, "gives a list of floats"),
    ],
)
def test_what_does_not_fit_is_refused_at_deploy(aggregator, node, arrow_type, message):
    """Names the aggregate, says what to change."""
    with pytest.raises(DeclarationError, match=message) as caught:
        aggregator.bind(as_node(node), [arrow_type], PACKING)
    assert caught.value.hint
