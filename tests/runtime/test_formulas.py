"""Holds the language of formulas: what it says, what it refuses, and that nothing gets out."""

from __future__ import annotations

import random

import pytest

from atoll.runtime.formulas.evaluate import Unfit, evaluate
from atoll.runtime.formulas.parse import Malformed, parse_formula


def value(text, event=None, **aliases):
    """What a formula is for an event."""
    return evaluate(text, event or {}, aliases)


@pytest.mark.parametrize(
    ("text", "event", "aliases", "expected"),
    [
        ("x > 10", {"x": 5}, {}, False),
        ("x.y.z > 10 && y < 12", {"x": {"y": {"z": 12}}, "y": 8}, {}, True),
        ("a.b.c + 'xyz'", {"a": {"b": {"c": "uvw"}}}, {}, "uvwxyz"),
        (
            "x > 10 && myvariable == 20 && variable2 != 4",
            {"x": 4},
            {"myvariable": 20, "variable2": 5},
            False,
        ),
        ("z[0] + z[1]", {"z": [0, 1.5]}, {}, 1.5),
        ("x['y']", {"x": {"y": True}}, {}, True),
        ("x > 10", {}, {}, None),
        ("true || missing > 1", {}, {}, None),
        ("x", {"x": 1}, {"x": 2}, 2),
        ("1 + 2 * 3 - 4 / 2", {}, {}, 5.0),
        ("(1 + 2) * 3", {}, {}, 9),
        ("10 - 2 - 3", {}, {}, 5),
        ("8 / 2 / 2", {}, {}, 2.0),
        ("-3 + --3", {}, {}, 0),
        ("- x * 2", {"x": 3}, {}, -6),
        ("0 == 0.0", {}, {}, True),
        ("1e3 > 999.5", {}, {}, True),
        ("'a' == 'a' && 'a' != 'b'", {}, {}, True),
        ("'it''s'", {}, {}, "it's"),
        ("!(1 > 2) || false", {}, {}, True),
        ("!true || true", {}, {}, True),
        ("true == (1 < 2)", {}, {}, True),
        ("1 < 2 && 2 < 3 || 1 / 1 > 5", {}, {}, True),
        ("9223372036854775807 + 1", {}, {}, float(2**63)),
    ],
)
def test_formulas(text, event, aliases, expected):
    """Coral's examples, precedence, and what fields and aliases are."""
    found = value(text, event, **aliases)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "x >", "> 1", "1 2", "x y", "(1", "1)", "()", "1 < 2 < 3", "x = 1", "x & y"),
        *("a[0][1]", "a.", "a[x]", "a[-1]", "'open", '"a"', "1.", "01x", "0x10", "1e9999"),
        *("f(1)", "x.y()", "lambda: 1", "x if y else z", "[1]", "{1}", "x ** 2", "x % 2"),
        *("x := 1", "import os", "a; b", "a\\b", "`a`", "$a", "@a", "a ? b : c", "f'{x}'"),
        *("not x", "x and y", "x in y", "x is y", "1_000", "..", "é > 1", "x\0", "'%s' % 1"),
        *("(" * 40 + "1" + ")" * 40, "!" * 50 + "true", "-" * 50 + "1", "1" + "+1" * 600),
        *("x" * 5_000, "9" * 40, "''.join('a')"),
    ],
)
def test_what_is_no_formula(text):
    """Calls, names of Python's, chains and depths without bound: each is told, none is run."""
    with pytest.raises(Malformed, match=r"\w"):
        parse_formula(text)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("x + 1", {"x": "a"}),
        ("x + 'a'", {"x": 1}),
        ("x && true", {"x": 1}),
        ("!x", {"x": "a"}),
        ("-x", {"x": True}),
        ("x > 1", {"x": "2"}),
        ("x == 1", {"x": "1"}),
        ("x == 1", {"x": True}),
        ("x / 0", {"x": 1}),
        ("x * x", {"x": 1e200}),
        ("x", {"x": [1]}),
        ("x", {"x": {}}),
        ("x", {"x": float("inf")}),
        ("x", {"x": 10**30}),
        ("+".join(["x"] * 400), {"x": "a" * 1_000}),
    ],
)
def test_values_that_do_not_fit(text, event):
    """Kinds are never converted, and nothing grows without bound."""
    with pytest.raises(Unfit, match=r"\w"):
        value(text, event)


def test_texts_made_by_chance_are_formulas_or_are_told():
    """Ten thousand of them raise nothing else, neither when they are read nor when they are run."""
    chance = random.Random(20)
    parts = ["x", "y.z", "l[0]", "'t'", "1", "0.5", "true", "(", ")", "!", "-", "+", "*", "/"]
    parts += ["&&", "||", "==", "!=", "<", ">=", "a(", "**", "__class__", ".", "'"]
    event = {"x": 3, "y": {"z": "t"}, "l": [0.5], "__class__": False}
    read = 0
    for _ in range(10_000):
        text = " ".join(chance.choices(parts, k=chance.randrange(1, 12)))
        try:
            found = value(text, event)
        except (Malformed, Unfit):
            continue
        read += 1
        assert type(found) in {bool, int, float, str}
    assert read > 100
