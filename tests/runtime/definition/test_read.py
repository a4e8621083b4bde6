"""Holds which definitions are right, and that all that is wrong is told at once: case 25."""

from __future__ import annotations

import json

import pytest

from atoll.errors import DefinitionError
from atoll.runtime.definition.kinds import KINDS
from atoll.runtime.definition.links import circle_in, order_of
from atoll.runtime.definition.read import (
    check_definition,
    parse_definition,
    read_definition,
    unrunnable,
)


def threshold(name, **more):
    """An actor that is right."""
    params = {"key": "amount", "threshold": 10}
    return {"name": name, "type": "threshold", "params": params, **more}


def definition(**changes):
    """A definition that is right, but for the changes; None leaves a field out."""
    whole = {
        "name": "r",
        "actors": [threshold("name1"), threshold("name2")],
        "links": [{"from": "name1", "to": "name2"}],
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def kinds(data):
    """The kinds of what is wrong; every one is a kind that is documented."""
    found = {each.kind for each in check_definition(data)[1]}
    assert found <= set(KINDS)
    return found


UNKNOWN = [{"from": "actor1", "to": "actor2"}]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": None, "links": UNKNOWN}, "no-runtime-name unknown-link-actor orphaned-actor"),
        ({"links": []}, "no-links orphaned-actor"),
        ({"links": {}}, "no-links-section"),
        ({"links": None}, "no-links-section"),
        (
            {"actors": [{**threshold("name1"), "params": {"wrong": 1}}, threshold("name2")]},
            "invalid-actor",
        ),
        ({"actors": []}, "no-actors unknown-link-actor orphaned-actor"),
        (
            {"actors": [threshold(""), threshold("")]},
            "nameless-actor unknown-link-actor orphaned-actor",
        ),
        (
            {"actors": [{"type": "threshold", "params": {"key": "k", "threshold": 1}}]},
            "nameless-actor unknown-link-actor orphaned-actor",
        ),
        ({"links": [{"from": "name1", "to": "nobody"}]}, "unknown-link-actor"),
        (
            {"actors": [threshold("name1"), threshold("name1"), threshold("name2")]},
            "duplicate-actor",
        ),
        ({"links": [{"from": "name1"}]}, "incomplete-link unknown-link-actor"),
    ],
)
def test_case_25_the_validator(changes, expected):
    """Each definition of Coral's tests has the problems that Coral found, all in one answer."""
    assert kinds(definition(**changes)) == set(expected.split())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": ""}, "no-runtime-name"),
        ({"name": "a-b"}, "runtime-name"),
        ({"name": "r.1"}, "runtime-name"),
        ({"name": "../x"}, "runtime-name"),
        ({"name": 5}, "runtime-name"),
        ({"name": "x" * 64}, "runtime-name"),
        ({"owner": ""}, "owner"),
        ({"projectid": ""}, "projectid"),
        ({"persistence": True}, "unknown-field"),
        ({"distribution": {"mode": "predefined", "machine": {}}}, "distribution"),
        ({"distribution": {"copies": 0}}, "distribution"),
        ({"distribution": {"mode": "split-random"}}, "distribution"),
        ({"distribution": {"copies": 256, "by": ""}}, "distribution"),
        ({"links": [{"from": "name1", "to": "name2"}] * 2}, "duplicate-link"),
        (
            {"links": [{"from": "name1", "to": "name2"}, {"from": "name2", "to": "name1"}]},
            "cycle",
        ),
        ({"actors": [threshold("name1"), threshold("name2"), threshold("c")]}, "orphaned-actor"),
        (
            {"actors": [threshold("name1"), threshold("NAME1"), threshold("name2")]},
            "duplicate-actor orphaned-actor",
        ),
        ({"actors": [threshold("name1", copies=0), threshold("name2")]}, "copies"),
        ({"actors": [threshold("name1", copies=True), threshold("name2")]}, "copies"),
        ({"actors": [threshold("name1", log={"in": 1}), threshold("name2")]}, "log"),
        ({"actors": [threshold("name1", group={}), threshold("name2")]}, "group"),
        ({"actors": [threshold("name1", groupby="x"), threshold("name2")]}, "unknown-field"),
        ({"actors": [threshold("name1", state={"calc-local": True}), threshold("name2")]}, "state"),
        (
            {
                "actors": [
                    threshold("name1", timeout={"duration": 1, "mode": "exit"}),
                    threshold("name2"),
                ]
            },
            "timeout",
        ),
        ({"actors": [threshold("name1", collect=[]), threshold("name2")]}, "no-collect"),
        ({"actors": [threshold("name1"), "name2"]}, "invalid-actor unknown-link-actor"),
        ({"actors": [{"name": "name1", "type": "no"}, threshold("name2")]}, "invalid-actor"),
        (
            {"actors": [threshold("actors")], "links": [{"from": "actors", "to": "actors"}]},
            "actor-name cycle",
        ),
    ],
)
def test_each_rule_is_told_alone(changes, expected):
    """What breaks one rule has one kind of problem."""
    assert kinds(definition(**changes)) == set(expected.split())


def test_a_right_definition_is_read():
    """Short forms are long, usual values stand, and the order follows the links."""
    data = definition(
        links=[{"from": "name2", "to": "name1"}],
        owner="ann",
        distribution={"mode": "duplicate", "copies": 3, "by": "customer"},
    )
    read = parse_definition(json.dumps(data))
    assert (read.name, read.owner, read.order) == ("r", "ann", ("name2", "name1"))
    assert (read.distribution.copies, read.distribution.by) == (3, "customer")
    assert read.actors[0].params.threshold == 10
    assert read.given == data


def test_the_error_holds_every_problem():
    """The message names the first; the context has all, each with path and hint."""
    with pytest.raises(DefinitionError, match=r"at /name: .*, and 2 more") as caught:
        read_definition({})
    problems = caught.value.context["problems"]
    assert [each["path"] for each in problems] == ["/name", "/actors", "/links"]
    assert all(each["hint"] for each in problems)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "not-json"),
        ("{", "not-json"),
        (b"\xff\xfe{}", "not-json"),
        ('{"a": 1, "a": 2}', "not-json"),
        ("[" * 100_000, "not-json"),
        ('{"name": NaN}', "too-large"),
        ('{"name": 1e999}', "too-large"),
        ('{"name": %s}' % ("9" * 5000), "not-json"),
        ('{"name": %s}' % ("9" * 400), "too-large"),
        ('{"name": "\\ud800"}', "too-large"),
        ('{"name": "a\\u0000"}', "too-large"),
        ("[" * 40 + "]" * 40, "too-large"),
        (" " * (1 << 20) + "{}", "too-large"),
        ("[]", "not-an-object"),
        ("null", "not-an-object"),
    ],
)
def test_texts_that_are_no_definition(text, kind):
    """No JSON, doubled names, numbers and depths beyond what anything can hold."""
    with pytest.raises(DefinitionError) as caught:
        parse_definition(text)
    assert {each["kind"] for each in caught.value.context["problems"]} == {kind}


def test_a_circle_is_named():
    """Whoever closed it sees the way around, not the actors before and behind it."""
    links = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "e")]
    assert circle_in(list("abcde"), links) == ["b", "c", "b"]
    assert circle_in(list("abc"), [("a", "b"), ("b", "c"), ("a", "c")]) == []
    assert order_of(list("cab"), [("b", "c")]) == ("a", "b", "c")


def test_one_mistake_hides_no_other():
    """Each of these is told, at its own place, though they stand within and beside each other."""
    data = {
        "name": "a b",
        "more": 1,
        "distribution": {"copies": 0, "mode": "local"},
        "actors": [
            {"name": "x", "type": "none", "copies": 0, "log": 5, "group": {}, "timeout": {}},
            {
                "name": "y",
                "type": "function",
                "params": {"function": "(", "outputfield": ""},
                "collect": [
                    {"alias": "a", "from": "nobody", "field": "f"},
                    {"alias": "", "from": "x", "field": "f"},
                    {"alias": "b", "from": "x"},
                ],
                "state": {"calc-local": 5, "log-batch": {"update": 5}},
            },
            {"name": "g", "type": "generator", "params": {"format": {}, "timer": {"rate": -1}}},
        ],
        "links": [
            {"from": "x"},
            {"from": "x", "to": "y"},
            5,
            {"from": "y", "to": "g"},
            {"from": "y", "to": "x"},
        ],
    }
    told = {(each.kind, each.path) for each in check_definition(data)[1]}
    assert told == {
        ("unknown-field", "/more"),
        ("runtime-name", "/name"),
        ("distribution", "/distribution/copies"),
        ("distribution", "/distribution/mode"),
        ("invalid-actor", "/actors/0/type"),
        ("copies", "/actors/0/copies"),
        ("log", "/actors/0/log"),
        ("group", "/actors/0/group"),
        ("timeout", "/actors/0/timeout"),
        ("invalid-actor", "/actors/1/params/outputfield"),
        ("state", "/actors/1/state/calc-local"),
        ("state", "/actors/1/state/log-batch/update"),
        ("collect-unknown-actor", "/actors/1/collect/0/from"),
        ("collect-empty-alias", "/actors/1/collect/1/alias"),
        ("collect-no-field", "/actors/1/collect/2"),
        ("invalid-actor", "/actors/2/params/timer/rate"),
        ("incomplete-link", "/links/0"),
        ("unknown-link-actor", "/links/0"),
        ("incomplete-link", "/links/2"),
        ("link-into-source", "/links/3"),
        ("cycle", "/links"),
    }


def test_what_cannot_run_yet_is_read():
    """A broker's actors are declared and checked; that they cannot run is told apart, with why."""
    consumer = {
        "name": "in",
        "type": "kafka-consumer",
        "params": {"topic": "t", "kafka": {"group.id": "g", "zookeeper.connect": "z"}},
    }
    links = [{"from": "in", "to": "name2"}]
    read = read_definition(definition(actors=[consumer, threshold("name2")], links=links))
    (problem,) = unrunnable(read)
    assert (problem.path, problem.kind) == ("/actors/0/type", "invalid-actor")
    assert "POST" in problem.hint
    assert unrunnable(read_definition(definition())) == []
