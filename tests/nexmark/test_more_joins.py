"""Outer, anti and interval joins over generated events, equal to DuckDB however they came."""

from __future__ import annotations

import random
from inspect import getsource

import pytest

from nexmark import queries, verify
from nexmark.checking import differences, expected, run
from nexmark.feeds import generated


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", queries.JOINS)
def test_equal_to_sql(name, seed):
    """Cut at random, then all at once: with a failed attempt and a reschedule in each."""
    assert verify.check(name, 1_500, seed, 4) == []
    assert verify.check(name, 1_500, seed, 1) == []


@pytest.mark.parametrize("name", queries.JOINS)
def test_record_by_record(name):
    """Each event by itself, in the order of the kinds."""
    apart = [
        {kind: piece[kind].slice(at, 1)}
        for piece in generated(verify.settings(2), 40, 1, random.Random(2))
        for kind in ("person", "auction", "bid")
        for at in range(piece[kind].num_rows)
    ]
    found, records = run(name, apart, 7)
    assert differences(found, expected(name, records)) == []
    assert found or name == "anti"  # so early every seller has sold


@pytest.mark.parametrize("name", queries.JOINS)
def test_each_takes_few_lines(name):
    """A declaration of at most fifteen lines."""
    lines = getsource(queries.load(name).build).splitlines()[2:]
    assert len(lines) <= 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", queries.JOINS)
def test_equal_to_sql_over_many_events(name, seed):
    """A hundred thousand."""
    assert verify.check(name, 100_000, seed, 12) == []
    assert verify.check(name, 100_000, seed, 1) == []
