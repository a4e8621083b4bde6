"""Policies: their texts, and the number of units that they ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.errors import UsageError
from atoll.placement.policies.policy import (
    Adaptive,
    Bounded,
    Custom,
    Fixed,
    Load,
    Policy,
    Ratio,
    parse_policy,
    target,
)

COUNTS = st.integers(1, 100_000)
POLICIES = st.one_of(
    st.just(Adaptive()),
    st.just(Custom()),
    COUNTS.map(Fixed),
    COUNTS.map(Bounded),
    st.floats(0, 1).map(Ratio),
    st.lists(COUNTS, min_size=2, max_size=2).map(lambda bounds: Load(*sorted(bounds))),
)


# ---------------------------------------------------------------------------------- texts


@given(POLICIES)
def test_texts_round_trip(policy: Policy) -> None:
    """The text of every policy reads as that policy, in capitals and with spaces too."""
    assert policy == parse_policy(str(policy), custom_allowed=True)
    assert policy == parse_policy(f"  {str(policy).upper()} ", custom_allowed=True)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Adaptive(), "Adaptive"),
        (Fixed(3), "fixed(3)"),
        (Fixed(3), "3"),
        (Fixed(3), " FIXED ( 3 ) "),
        (Bounded(4), "bounded(4)"),
        (Ratio(0.5), "ratio(0.5)"),
        (Ratio(0.5), "ratio(.5)"),
        (Ratio(1.0), "ratio(1)"),
        (Ratio(0.0), "ratio(0)"),
        (Ratio(0.00001), "ratio(1e-05)"),
        (Load(1, 8), "load(1,8)"),
        (Load(2, 2), "Load( 2 , 2 )"),
    ],
)
def test_texts(policy: Policy, text: str) -> None:
    """The forms that a person may write."""
    assert policy == parse_policy(text)


@pytest.mark.parametrize(
    "text",
    [
        *("0", "-1", "fixed(0)", "fixed(-1)", "bounded(0)", "bounded(-4)"),
        *("ratio(1.1)", "ratio(-0.5)", "ratio(nan)", "ratio(inf)"),
        *("", "all", "fixed", "fixed()", "fixed(2.5)", "fixed(nan)", "3.0", "1_0", "--3", "٣"),
        *("ratio", "ratio()", "ratio(half)", "ratio(0.5", "ratio(0.5))", "adaptive(3)", "3 4"),
        *("load", "load()", "load(3)", "load(0,3)", "load(3,2)", "load(1,2,3)", "load(1,x)"),
        "custom",
    ],
)
def test_texts_that_are_refused(text: str) -> None:
    """Numbers out of range, other words and typos: each with what to do about it."""
    with pytest.raises(UsageError) as caught:
        parse_policy(text)
    assert caught.value.hint


def test_custom_is_read_but_never_set() -> None:
    """It stands in the cluster info after a reschedule; a person cannot ask for it."""
    assert Custom() == parse_policy("Custom", custom_allowed=True)
    with pytest.raises(UsageError, match="no policy to set"):
        parse_policy("custom")


@pytest.mark.parametrize("count", [0, -1, True, 2.0])
def test_counts_that_cannot_be(count: object) -> None:
    """Nor can such a policy be made without a text."""
    for kind in (Fixed, Bounded):
        with pytest.raises(UsageError):
            kind(count)


# ---------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("expected", "policy", "available"),
    [
        *((7, Adaptive(), 7), (3, Fixed(3), 7), (2, Fixed(3), 2), (3, Bounded(3), 7)),
        *((2, Bounded(3), 2), (5, Custom(), 7), (4, Custom(), 4)),
        *((5, Load(1, 8), 9), (6, Load(6, 8), 9), (3, Load(1, 3), 9), (4, Load(1, 8), 4)),
        *((1, Ratio(0.3), 3), (1, Ratio(0.3), 4), (1, Ratio(0.3), 5), (2, Ratio(0.3), 7)),
        *((29, Ratio(0.29), 100), (57, Ratio(0.57), 100), (7, Ratio(1.0), 7), (1, Ratio(0.0), 7)),
    ],
)
def test_targets(expected: int, policy: Policy, available: int) -> None:
    """Of each policy, with 5 units now; ratios are those of decimals, not of floats."""
    assert expected == target(policy, available, None, current=5)


@given(st.integers(0, 100), st.integers(1, 400))
def test_ratios_in_percent_are_exact(percent: int, available: int) -> None:
    """No percentage of any number of units loses one to a rounded float."""
    expected = max(1, percent * available // 100)
    assert expected == target(Ratio(percent / 100), available, None, 1)


@given(POLICIES, st.integers(0, 600), st.integers(1, 300), st.integers(1, 600))
def test_targets_have_limits(policy: Policy, available: int, vnodes: int, current: int) -> None:
    """Never more than available or than vnodes, and one at least while there is one."""
    limited = target(policy, available, vnodes, current)
    assert min(1, available) <= limited <= min(available, vnodes)
    assert limited == min(target(policy, available, None, current), vnodes)
