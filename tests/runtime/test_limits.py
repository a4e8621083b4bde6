"""Holds how large what comes from outside may be, and that both ways to look agree."""

from __future__ import annotations

import json
import random

import pytest

from atoll.runtime.events import compact, event_of
from atoll.runtime.limits import DEPTH_MAX, _count, _Misfit, _told, check_size, parse_json


def deep(levels):
    """Lists within each other."""
    value = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG = [
    *(deep(DEPTH_MAX + 1), deep(50_000), 2**63, -(2**63) - 1, float("nan"), float("-inf")),
    *("\ud800", "a\0b", {"\udfff": 1}, {1: 2}, (1,), b"x", object(), "x" * (256 * 1024 + 1)),
    *({str(n): n for n in range(10_001)}, [0] * 200_001, {"a": [{"b": {"c": float("inf")}}]}),
]
RIGHT = [
    *(None, True, 0, -(2**63), 2**63 - 1, 1.5, "", "é\U0001f600", [], {}, deep(DEPTH_MAX)),
    *({"": 1, "a": [None, {"b": [1.5, "x"]}]}, {str(n): n for n in range(10_000)}, [0] * 1_000),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_what_is_too_large(at):
    """Each is told with a place and a hint."""
    problems = list(check_size(WRONG[at]))
    assert problems
    assert {each.kind for each in problems} == {"too-large"}


@pytest.mark.parametrize("at", range(len(RIGHT)))
def test_what_is_not(at):
    """Neither look finds anything."""
    assert list(check_size(RIGHT[at])) == []
    assert list(_told(RIGHT[at])) == []


def test_both_looks_agree():
    """Over data made by chance of right and wrong parts."""
    chance = random.Random(5)
    wrong = [2**70, float("nan"), "\ud800", {1: 2}, (1,)]

    def made(depth):
        way = chance.randrange(8)
        if depth > 6 or way < 3:
            return chance.choice([None, True, 3, 0.5, "x", "é"])
        if way == 3 and chance.random() < 0.1:
            return chance.choice(wrong)
        if way < 6:
            return [made(depth + 1) for _ in range(chance.randrange(4))]
        return {chance.choice("abé"): made(depth + 1) for _ in range(chance.randrange(4))}

    found = set()
    for _ in range(2_000):
        data = made(0)
        try:
            _count(data, 0)
            quick = True
        except _Misfit:
            quick = False
        found.add(quick)
        assert quick == (not list(_told(data)))
    assert found == {True, False}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        (b'{"a": "\xc3\xa9"}', {"a": "é"}),
        (b'{"a": "\xe9"}', None),
        ("\ufeff{}", None),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', None),
        ("{} {}", None),
        ("[]", None),
        ('{"a": NaN}', None),
        ('{"a": -Infinity}', None),
        ('{"a": 18446744073709551616}', None),
        ("[" * 100_000, None),
    ],
)
def test_events_of_texts(text, expected):
    """One object, whose names are told apart, and nothing that JSON does not know."""
    assert event_of(text) == expected


def test_events_are_written_compactly():
    """As they came, on one line."""
    event = {"a": [1, 1.0, "é\n"], "b": None}
    assert json.loads(compact(event)) == event
    assert compact(event) == '{"a":[1,1.0,"é\\n"],"b":null}'


def test_many_doubled_names_are_soon_told():
    """However many there are, each object is looked at once."""
    pairs = ",".join(f'"n{n % 20_000}":1' for n in range(80_000))
    assert "more than once" in parse_json("{" + pairs + "}")[1][0].what
