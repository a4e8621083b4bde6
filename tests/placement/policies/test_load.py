"""The load-based policy: trends, bounds, the cool-down, and no back and forth."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.errors import UsageError
from atoll.placement.policies.load import LoadOptions, LoadState, Sample, decide

BUSY = (0.95, 0, 1_000.0)
IDLE = (0.1, 0, 1_000.0)
LEVEL = (0.5, 0, 1_000.0)
LAGGING = (0.5, 6_000, 1_000.0)
STILL = (0.1, 6_000, 0.0)
QUICK = LoadOptions(cool_down_seconds=0)


def feed(samples, *, current=4, available=16, options=QUICK) -> list[int | None]:
    """What is decided after each sample, one a second; the units follow each decision at once."""
    state, decisions = LoadState(), []
    for at, (busy, lag, rate) in enumerate(samples):
        state, wanted = decide(state, Sample(at, busy, lag, rate), current, available, options)
        decisions.append(wanted)
        current = wanted or current
    return decisions


# ---------------------------------------------------------------------------------- trends


@pytest.mark.parametrize(("sample", "wanted"), [(BUSY, 8), (LAGGING, 8), (IDLE, 3)])
def test_three_in_a_row_decide(sample: tuple, wanted: int) -> None:
    """After the first sample, which tells only how many units there are."""
    assert feed([sample] * 4) == [None, None, None, wanted]


@pytest.mark.parametrize("sample", [LEVEL, STILL, (0.1, 2_000, 1_000.0), (0.8, 5_000, 1_000.0)])
def test_between_the_bounds_nothing_happens(sample: tuple) -> None:
    """Nor for a lag that nothing processes, nor with a lag that is too much for shrinking."""
    assert feed([sample] * 20) == [None] * 20


def test_a_standstill_that_is_busy_grows() -> None:
    """A microbatch that takes longer than the time between samples has processed nothing yet."""
    assert feed([(1.0, 6_000, 0.0)] * 4)[-1] == 8


@pytest.mark.parametrize("other", [LEVEL, IDLE, STILL])
def test_another_sample_ends_a_trend(other: tuple) -> None:
    """Two high ones, one other, two high ones: no trend; the third is one."""
    assert feed([BUSY, BUSY, BUSY, other, BUSY, BUSY]) == [None] * 6
    assert feed([BUSY, BUSY, BUSY, other, BUSY, BUSY, BUSY])[-1] == 8


def test_growth_multiplies_and_shrinking_steps() -> None:
    """By the options; growth is rounded up, so that it is growth for one unit too."""
    options = LoadOptions(cool_down_seconds=0, samples=1, growth=1.5, shrink_step=3)
    assert feed([BUSY] * 2, current=5, options=options)[-1] == 8
    assert feed([BUSY] * 2, current=1, options=options)[-1] == 2
    assert feed([IDLE] * 2, current=5, options=options)[-1] == 2
    assert feed([IDLE] * 2, current=3, options=options)[-1] == 1


def test_it_never_shrinks_into_too_much() -> None:
    """Two units at 45 % would be one at 90 %; three of them would be two at 67.5 %."""
    options = LoadOptions(cool_down_seconds=0, busy_low=0.5)
    assert feed([(0.45, 0, 1_000.0)] * 9, current=2, options=options) == [None] * 9
    assert feed([(0.45, 0, 1_000.0)] * 4, current=3, options=options)[-1] == 2


# ---------------------------------------------------------------------------------- cool-down


def test_the_first_sample_starts_a_cool_down() -> None:
    """A topology that just started catches up: that is no load. Then three samples count."""
    decisions = feed([BUSY] * 80, options=LoadOptions(cool_down_seconds=60))
    assert decisions[:62] == [None] * 62
    assert decisions[62] == 8


def test_a_change_by_anybody_starts_a_cool_down() -> None:
    """A worker was lost, or a person rescheduled: old samples tell nothing of the new units."""
    options = LoadOptions(cool_down_seconds=5, samples=3)
    state, decided_at = LoadState(), []
    for at in range(30):
        current = 4 if at < 7 else 3
        state, wanted = decide(state, Sample(at, *BUSY), current, 16, options)
        if wanted:
            decided_at.append((at, wanted))
    # 5 and 6 were two of three; the change at 7 waits until 12, counts to 14, and is not made:
    assert decided_at == [(14, 6), (21, 6), (28, 6)]


def test_a_change_counts_from_when_it_is_seen() -> None:
    """One that takes effect late has its own cool-down."""
    options = LoadOptions(cool_down_seconds=5, samples=1)
    state, decided_at = LoadState(), []
    for at in range(20):
        state, wanted = decide(state, Sample(at, *BUSY), 4 if at < 8 else 8, 16, options)
        if wanted:
            decided_at.append((at, wanted))
    assert decided_at == [(5, 8), (13, 16), (18, 16)]


# ---------------------------------------------------------------------------------- bounds


def test_bounds_hold() -> None:
    """Growth ends at the most and at what there is; shrinking at the least."""
    samples = [BUSY] * 8
    assert feed(samples, options=LoadOptions(cool_down_seconds=0, most=7))[3:] == [7] + [None] * 4
    assert feed(samples, available=5)[3:] == [5] + [None] * 4
    options = LoadOptions(cool_down_seconds=0, least=3)
    assert feed([IDLE] * 20, options=options) == [None] * 3 + [3] + [None] * 16


def test_units_outside_the_bounds_are_led_back() -> None:
    """Without a trend: the bounds are a wish. Of least and available the smaller holds."""
    assert feed([LEVEL] * 2, options=LoadOptions(cool_down_seconds=0, most=2)) == [None, 2]
    assert feed([LEVEL] * 2, options=LoadOptions(cool_down_seconds=0, least=6)) == [None, 6]
    least = LoadOptions(cool_down_seconds=0, least=9)
    assert feed([LEVEL] * 2, available=6, options=least) == [None, 6]


def test_without_units_nothing_is_decided() -> None:
    """The topology waits for a worker."""
    assert feed([BUSY] * 9, available=0) == [None] * 9


@pytest.mark.parametrize(
    "wrong",
    [
        *({"busy_low": 0}, {"busy_low": 0.8}, {"busy_high": 1.1}, {"busy_high": float("nan")}),
        *({"lag_low_seconds": -1}, {"lag_low_seconds": 5}, {"lag_high_seconds": 1}),
        *({"samples": 0}, {"cool_down_seconds": -1}, {"least": 0}, {"least": 3, "most": 2}),
        *({"growth": 1}, {"growth": float("inf")}, {"shrink_step": 0}, {"most": 0}),
    ],
)
def test_options_that_cannot_be(wrong: dict) -> None:
    """Each is named in the hint."""
    with pytest.raises(UsageError) as caught:
        LoadOptions(**wrong)
    assert any(name in str(caught.value.hint) for name in wrong)


# ---------------------------------------------------------------------------------- properties


@st.composite
def load_options(draw: st.DrawFn) -> LoadOptions:
    """Any that make sense."""
    low = draw(st.integers(5, 90))
    least = draw(st.integers(1, 6))
    return LoadOptions(
        busy_low=low / 100,
        busy_high=draw(st.integers(low + 1, 95)) / 100,
        samples=draw(st.integers(1, 3)),
        cool_down_seconds=draw(st.integers(0, 10)),
        least=least,
        most=draw(st.none() | st.integers(least, 40)),
        growth=draw(st.integers(11, 40)) / 10,
        shrink_step=draw(st.integers(1, 4)),
    )


def simulated(options: LoadOptions, arriving: int, backlog: int, units: int, *, seconds: int):
    """A topology of units that do 100 records a second each: units and lag at each second.

    Each unit more adds its part, records arrive steadily, and a decision takes effect at once.
    """
    state, available = LoadState(), 32
    lived = []
    for at in range(seconds):
        done = min(backlog + arriving, units * 100)
        backlog += arriving - done
        sample = Sample(at, done / (units * 100), backlog, done)
        state, wanted = decide(state, sample, units, available, options)
        lived.append((at, units, backlog))
        units = wanted or units
    return lived


@settings(max_examples=100, deadline=None)
@given(load_options(), st.integers(0, 4_000), st.integers(0, 30_000), st.integers(1, 32))
def test_a_constant_load_settles(
    options: LoadOptions, arriving: int, backlog: int, units: int
) -> None:
    """Up, then down, then still: at most one turn, within the bounds, cool-downs apart.

    In the end the units suffice without idling, or a bound forbids more or fewer.
    """
    most = min(32, options.most or 32)
    units = max(options.least, min(units, most))
    lived = simulated(options, arriving, backlog, units, seconds=1_000)
    counts = [count for _, count, _ in lived]
    assert options.least <= min(counts)
    assert max(counts) <= most
    directions = [after > before for before, after in pairwise(counts) if after != before]
    turns = [up for up, _ in groupby(directions)]
    assert turns in ([], [True], [False], [True, False]), counts
    changed_at = [at for (at, before, _), (_, after, _) in pairwise(lived) if before != after]
    assert all(b - a >= options.cool_down_seconds for a, b in pairwise([0, *changed_at]))
    assert len(set(counts[-100:])) == 1, "it has settled"
    check_settled(options, arriving, counts[-1], most, lived[-1][2])


def check_settled(options: LoadOptions, arriving: int, units: int, most: int, lag: int) -> None:
    """Neither too much nor too little, as far as the bounds and the steps allow."""
    busy = arriving / (units * 100)
    assert busy <= options.busy_high or units == most
    fewer = max(options.least, units - options.shrink_step)
    idles = busy < options.busy_low and lag <= arriving * options.lag_low_seconds
    too_much_then = busy * units / fewer > options.busy_high
    assert not idles or fewer == units or too_much_then


SAMPLES = st.builds(
    Sample, st.just(0.0), st.floats(0, 1), st.integers(0, 10**9), st.floats(0, 10**6)
)


@settings(max_examples=150, deadline=None)
@given(load_options(), st.lists(st.tuples(SAMPLES, st.integers(0, 9)), max_size=80), st.data())
def test_any_samples_keep_the_rules(options: LoadOptions, drawn: list, data) -> None:
    """Bounds and cool-down hold whatever is measured; equal states and samples decide alike."""
    state, at, units, changed_at = LoadState(), 0, data.draw(st.integers(1, 40)), 0
    for sample, pause in drawn:
        at += pause
        available = data.draw(st.integers(0, 40))
        now = Sample(at, sample.busy_ratio, sample.lag_records, sample.processed_per_second)
        again = decide(state, now, units, available, options)
        state, wanted = decide(state, now, units, available, options)
        assert again == (state, wanted)
        if wanted is None:
            continue
        assert wanted != units
        assert 1 <= wanted <= min(available, options.most or available)
        assert wanted >= min(options.least, available)
        assert at - changed_at >= options.cool_down_seconds
        if options.least <= wanted < units <= min(available, options.most or available):
            assert now.busy_ratio * units / wanted <= options.busy_high
        units, changed_at = wanted, at
