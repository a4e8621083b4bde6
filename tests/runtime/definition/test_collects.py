"""Holds what can be wrong with ``collect``, each kind alone: acceptance case 22."""

from __future__ import annotations

import pytest

from atoll.runtime.definition.read import check_definition

RIGHT = [
    {"alias": "count", "from": "stats", "field": "count"},
    {"alias": "avg", "from": "stats", "field": "avg"},
    {"alias": "std", "from": "stats", "field": "sd"},
]


def definition(collect, **more):
    """A zscore beside a stats, with this ``collect``; None leaves it out."""
    zscore = {"name": "zscore", "type": "zscore", "params": {"field": "v", "score": 3}, **more}
    if collect is not None:
        zscore["collect"] = collect
    return {
        "name": "r",
        "actors": [
            {"name": "in", "type": "httpbroadcast"},
            {"name": "stats", "type": "stats", "params": {"field": "v"}},
            {"name": "sql", "type": "sql", "params": {"database": "d", "statement": "select 1"}},
            zscore,
        ],
        "links": [
            {"from": "in", "to": "stats"},
            {"from": "in", "to": "zscore"},
            {"from": "in", "to": "sql"},
        ],
    }


def changed(at, **changes):
    """The right entries with one changed; None leaves a field out."""
    entry = {**RIGHT[at], **changes}
    entry = {name: value for name, value in entry.items() if value is not None}
    return [*RIGHT[:at], entry, *RIGHT[at + 1 :]]


def test_right_entries():
    """A zscore with its three aliases has no problem."""
    read, problems = check_definition(definition(RIGHT))
    assert problems == []
    assert [each.source for each in read.actors[3].collect] == ["stats"] * 3


@pytest.mark.parametrize(
    ("collect", "kind"),
    [
        ([], "no-collect"),
        (None, "no-collect"),
        ({}, "no-collect"),
        ("stats", "no-collect"),
        (changed(0, alias=None), "collect-no-alias"),
        (changed(1, **{"from": None}), "collect-no-from"),
        (changed(2, field=None), "collect-no-field"),
        ([*RIGHT, RIGHT[0]], "collect-duplicate-alias"),
        ([RIGHT[0], RIGHT[1], {**RIGHT[2], "alias": "count"}], "collect-duplicate-alias"),
        (changed(0, alias="wrongalias"), "collect-aliases"),
        (
            [
                {**each, "alias": alias}
                for each, alias in zip(RIGHT, ["wrongalias", "avg", "otheralias"], strict=True)
            ],
            "collect-aliases",
        ),
        (
            [
                {**each, "field": field}
                for each, field in zip(RIGHT, ["%^&@", "###", "*)("], strict=True)
            ],
            "collect-name",
        ),
        (changed(0, **{"from": "zscore"}), "collect-itself"),
        (changed(0, alias=""), "collect-empty-alias"),
        (changed(0, **{"from": ""}), "collect-empty-from"),
        (changed(0, field=""), "collect-empty-field"),
        (changed(0, more=1), "collect-entry"),
        ([*RIGHT[:2], 5], "collect-entry"),
        (changed(0, data={}), "collect-no-field"),
        (changed(0, field=None, data=5), "collect-entry"),
        (changed(0, **{"from": "nobody"}), "collect-unknown-actor"),
        (changed(0, field="median"), "collect-unknown-field"),
        (changed(0, **{"from": "sql"}, field=None, data={}), "collect-query"),
        (changed(0, field=None, data={}), "collect-query"),
        (RIGHT * 40, "too-many"),
    ],
)
def test_case_22_each_kind_alone(collect, kind):
    """One thing is wrong, and nothing else is told."""
    problems = check_definition(definition(collect))[1]
    assert {each.kind for each in problems} == {kind}
    assert all(each.path.startswith("/actors/3/collect") for each in problems)


def test_collect_stands_beside_params():
    """Within params, where Coral's actors looked, it is refused with the place where it belongs."""
    whole = definition(RIGHT)
    whole["actors"][3]["params"]["collect"] = whole["actors"][3].pop("collect")
    problems = check_definition(whole)[1]
    assert {each.kind for each in problems} == {"invalid-actor", "no-collect"}
    (misplaced,) = [each for each in problems if each.path.endswith("/params/collect")]
    assert 'beside "params"' in misplaced.hint


def test_a_type_that_collects_nothing():
    """Entries that nobody would ask for are refused."""
    whole = definition(RIGHT)
    whole["actors"][0]["collect"] = RIGHT
    assert {each.kind for each in check_definition(whole)[1]} == {"collect-aliases"}


def test_queries_in_a_circle():
    """Two actors that ask each other would never have an answer."""
    whole = {
        "name": "r",
        "actors": [
            {
                "name": name,
                "type": "function",
                "params": {"function": "x", "outputfield": "x"},
                "collect": [{"alias": "x", "from": other, "data": {}}],
            }
            for name, other in (("a", "b"), ("b", "a"))
        ],
        "links": [{"from": "a", "to": "b"}],
    }
    assert {each.kind for each in check_definition(whole)[1]} == {"cycle"}
