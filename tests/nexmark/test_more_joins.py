"""Outer, anti and interval joins over generated events, equal to DuckDB however they came."""

from __future__ import annotations

import os
import random
from inspect import getsource

import pytest

from nexmark import queries, verify
from nexmark.checking import differences, expected, run
from nexmark.feeds import generated

SOAK = os.environ.get("ATOLL_SOAK") == "1"


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", queries.JOINS)
def test_equal_to_sql(name, seed):
    """Cut at random, then all at once: with a failed attempt and a reschedule in each."""
    assert verify.check(name, 1_000, seed, 4) == []
    assert verify.check(name, 1_000, seed, 1) == []


@pytest.mark.parametrize(("name", "seed"), list(zip(queries.JOINS, (1, 2, 3), strict=True)))
def test_record_by_record(name, seed):
    """Each event by itself, with a failed attempt and a reschedule."""
    assert differs(name, 25, seed) == []


@pytest.mark.skipif(not SOAK, reason="a soak: set ATOLL_SOAK=1")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", queries.JOINS)
def test_record_by_record_for_long(name, seed):
    """As many as lie within and beyond ten minutes of each other."""
    assert differs(name, 800, seed) == []


def differs(name, count, seed):
    """How a query differs from SQL when each record comes by itself, in the order of their time."""
    (piece,) = generated(verify.settings(seed), count, 1, random.Random(seed))
    records = [
        (at, kind, number)
        for kind, table in piece.items()
        for number, at in enumerate(table["date_time"].to_pylist())
    ]
    feed = [{kind: piece[kind].slice(number, 1)} for _, kind, number in sorted(records)]
    found, seen = run(name, feed, seed)
    return differences(found, expected(name, seen))


@pytest.mark.parametrize("name", queries.JOINS)
def test_each_takes_few_lines(name):
    """A declaration of at most fifteen lines."""
    lines = getsource(queries.load(name).build).splitlines()[2:]
    assert len(lines) <= 15


@pytest.mark.skipif(not SOAK, reason="a soak: set ATOLL_SOAK=1")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", queries.JOINS)
def test_equal_to_sql_over_many_events(name, seed):
    """A hundred thousand."""
    assert verify.check(name, 100_000, seed, 12) == []
    assert verify.check(name, 100_000, seed, 1) == []
