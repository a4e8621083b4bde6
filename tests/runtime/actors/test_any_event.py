"""Holds that no type raises, whatever the event, and that each is documented."""

from __future__ import annotations

import itertools
import json

import pytest

from atoll.runtime.actors.group import Grouped
from atoll.runtime.actors.interface import Effect, Given
from atoll.runtime.actors.registry import actor_types
from atoll.runtime.actors.timeout import Resetting
from atoll.runtime.definition.described import fields_of, text_of_docstring
from atoll.runtime.definition.reading import read

VALUES = [
    *(
        None,
        True,
        0,
        -1,
        2**63,
        -(10**400),
        1.5,
        -0.0,
        1e308,
        5e-324,
        "",
        "x",
        "é\u202e",
        "9" * 500,
    ),
    *([], [1], [{}], [[[]]], {}, {"a": None}, {"": {"x": [1, "y"]}}, "http://127.0.0.1", "${a}"),
]
FIELDS = [
    *("amount", "age", "hour", "speed", "city", "kind", "transaction", "url", "order", "country"),
    *("score", "outlier", "key", "message", "total", "id", "lines"),
]


def _events():
    for value in VALUES:
        yield dict.fromkeys(FIELDS, value)
        yield dict(zip(FIELDS, itertools.cycle([value, 1, "x"]), strict=False))
        yield {"order": {"id": value, "total": value, "lines": [value]}, "amount": 1}
    yield {}


def _forms(kind):
    yield kind
    if not kind.entry:
        yield Grouped(kind, "city")
    if kind.resettable:
        yield Grouped(Resetting(kind, 10, "continue"), "kind")


@pytest.mark.parametrize("name", sorted(actor_types()))
def test_no_event_raises(name):
    """Every event is processed or is a failure, and all that comes of it is JSON."""
    kind = actor_types()[name]
    params, problems = read(kind.example, kind.params, "invalid-actor")
    assert not problems
    assert not list(kind.check(params))
    for form in _forms(kind):
        state = form.initial(params)
        for at_ms, event in enumerate(_events()):
            before = json.dumps([event, state])
            collected = {alias: event.get("amount") for alias in form.aliases or ()}
            given = Given("r.1/x/0", at_ms, at_ms, collected)
            result = form.trigger(params, state, event, given)
            assert json.dumps([event, state]) == before
            _check(result, state)
            state = result.state
            due = form.due(params, state)
            if due is not None and due <= at_ms:
                state = form.tick(params, state, given).state
            json.dumps(form.read(params, state), allow_nan=False)
            json.dumps(form.read_for(params, state, event), allow_nan=False)


def _check(result, state):
    json.dumps([result.state, result.emitted], allow_nan=False)
    for effect in result.effects:
        json.dumps(effect.request, allow_nan=False)
        assert effect.key
    if result.failure is not None:
        assert result.emitted == ()
        assert result.effects == ()
        assert result.state is state or result.state == state
        assert "\n" not in result.failure


@pytest.mark.parametrize("name", sorted(actor_types()))
def test_snapshots_skip_what_cannot_be_used(name):
    """A log holds whatever came in; its snapshot is a state like others."""
    kind = actor_types()[name]
    if not kind.modes - {"calc-local"}:
        return
    params, _ = read(kind.example, kind.params, "invalid-actor")
    for form in (kind, Grouped(kind, "kind")):
        events = list(_events())
        whole = form.snapshot(params, events)
        assert form.mergeable
        parts = [form.snapshot(params, events[at : at + 7]) for at in range(0, len(events), 7)]
        both = [form.read(params, each) for each in (whole, form.combine(params, parts))]
        assert set(map(len, both)) == {len(both[0])}
        json.dumps(both, allow_nan=False)


@pytest.mark.parametrize("name", sorted(actor_types()))
def test_a_type_says_what_it_is(name):
    """Words for the type and for each of its params; what it claims fits together."""
    kind = actor_types()[name]
    assert text_of_docstring(type(kind))
    described = fields_of(kind.params)
    assert set(described) == set(kind.params.__struct_fields__)
    assert kind.stateful == bool(kind.modes)
    assert kind.stateful or not (kind.fields or kind.mergeable or kind.resettable)
    assert kind.mergeable or not kind.modes & {"spark-batch"}


@pytest.mark.parametrize("outcome", [{}, {"status": 500}, {"error": "x"}, {"rows": [{"a": None}]}])
@pytest.mark.parametrize("name", ["httpclient", "sql", "log"])
def test_no_outcome_raises(name, outcome):
    """Whatever became of an effect, the events made of it are JSON."""
    kind = actor_types()[name]
    params, _ = read(kind.example, kind.params, "invalid-actor")
    found = kind.answered(params, Effect(kind.effect, {}, "k"), outcome)
    json.dumps(found, allow_nan=False)
