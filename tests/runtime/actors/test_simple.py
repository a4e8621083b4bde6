"""Holds what the types do that look at one field: acceptance cases 1, 2 and 7."""

from __future__ import annotations

import msgspec
import pytest

from atoll.runtime.actors.interface import Given
from atoll.runtime.actors.registry import actor_types


def emitted(name, params, event):
    """What an actor of the type emits for one event; None where that is a failure."""
    kind = actor_types()[name]
    result = kind.trigger(msgspec.convert(params, kind.params), None, event, Given())
    return None if result.failure else list(result.emitted)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"key1": 10.5}, [{"key1": 10.5}]),
        ({"key1": 10.7}, [{"key1": 10.7}]),
        ({"key1": 10.4}, []),
        ({"key2": 10.7}, None),
        ({"key1": "11"}, None),
        ({"key1": True}, None),
        ({"key1": float("nan")}, None),
        ({"key1": None}, None),
        ({"key1": 10**400}, [{"key1": 10**400}]),
    ],
)
def test_case_1_threshold(event, expected):
    """What reaches the threshold passes; what is no number is a failure."""
    assert emitted("threshold", {"key": "key1", "threshold": 10.5}, event) == expected


@pytest.mark.parametrize(
    ("function", "event", "passes"),
    [
        ("include", {"field": "starting"}, True),
        ("include", {"field": "nostart"}, False),
        ("include", {}, False),
        ("exclude", {"field": "starting"}, False),
        ("exclude", {"field": "nostart"}, True),
        ("exclude", {}, True),
        ("exclude", {"field": 5}, True),
    ],
)
def test_case_7_filter(function, event, passes):
    """Include and exclude are opposites; a missing field begins with nothing."""
    rule = {"type": "startswith", "function": function, "field": "field", "param": "start"}
    assert emitted("filter", {"filters": [rule]}, event) == [event] * passes


def test_case_7_every_filter_must_pass():
    """Two includes: both must match."""
    rules = [
        {"type": "startswith", "function": "include", "field": field, "param": "start"}
        for field in ("a", "b")
    ]
    assert emitted("filter", {"filters": rules}, {"a": "start", "b": "starting"})
    assert not emitted("filter", {"filters": rules}, {"a": "start", "b": "end"})
