"""Holds that a batch gives what its events give one by one, for every type that has ``batch``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.runtime.actors.interface import BatchGiven, Given
from atoll.runtime.actors.registry import actor_types
from atoll.runtime.batches import from_batch, to_batch
from atoll.runtime.definition.reading import read

WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)
DECIMAL = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-1.5, 0.0, 2.5])
TEXT = st.sampled_from(["", "a", "ab", "abc", "b", "é", "amsterdam", "1"]) | st.text(max_size=3)
VALUES = [WHOLE, DECIMAL, TEXT, st.booleans(), st.lists(WHOLE, max_size=2)]
VALUES.append(st.fixed_dictionaries({}, optional={"x": WHOLE, "y": TEXT}))
NAMES = ["a", "b", "c", "score"]
PARAMS = {
    "threshold": [
        {"key": "a", "threshold": 2.5},
        {"key": "a", "threshold": -3},
        {"key": "a", "threshold": 1e300},
        {"key": "a", "threshold": -1e300},
        {"key": "a", "threshold": 9.3e18},
    ],
    "minmax": [{"field": "a", "min": -2, "max": 2.5}, {"field": "b", "min": 1e18, "max": 1e19}],
    "filter": [
        {
            "filters": [
                {"type": "startswith", "function": "include", "field": "a", "param": "a"},
                {"type": "startswith", "function": "exclude", "field": "b", "param": "b"},
            ]
        }
    ],
    "sample": [{"fraction": 0.5}, {"fraction": 0}, {"fraction": 1}],
    "linearregression": [
        {"intercept": 0.1, "weights": {"a": 0.3, "b": 7}},
        {"intercept": 0, "weights": {"a": 1e300}, "outcome": "c"},
    ],
    "json": [
        {"template": {"p": "${a}", "q": {"r": "${b.x}", "s": 1, "t": None}, "u": "text"}},
        {"template": {"p": "${a.x.y}", "q": True, "r": 1.5}},
        {"template": {"p": "${*}", "q": ["${a}"]}},
        {"template": {}},
    ],
    "lookup": [
        {
            "key": "a",
            "lookup": {"a": {"c": 1, "d": "x"}, "ab": {"c": 2}},
            "function": function,
            "match": match,
            **more,
        }
        for function in ("enrich", "filter", "check")
        for match in ("exact", "startswith")
        for more in ({}, {"default": {"d": "${b}"}})
    ]
    + [{"key": "a", "lookup": {}, "function": "enrich"}],
    "httpbroadcast": [{}],
}
TRIALS = [(name, at) for name, each in PARAMS.items() for at in range(len(each))]


@st.composite
def columns(draw, name):
    """Events whose fields have a type each, most often one that the type of actor looks for."""
    usual = [TEXT] if name in {"filter", "lookup"} else [WHOLE, DECIMAL]
    kinds = {
        field: draw(st.sampled_from(usual * 4 + VALUES if field in {"a", "b"} else VALUES))
        for field in ["a", *draw(st.sets(st.sampled_from(NAMES[1:])))]
    }
    some, others = (st.lists(_objects(kinds, n), min_size=1, max_size=8) for n in (1, 0))
    return draw(st.one_of(some, some, others))


def _objects(kinds, sure):
    """Objects that have the first fields for sure, and perhaps the others."""
    names = list(kinds)
    return st.fixed_dictionaries(
        {name: kinds[name] for name in names[:sure]},
        optional={name: kinds[name] for name in names[sure:]},
    )


def one_by_one(kind, params, events):
    """Rows and events emitted, and the rows that failed by reason."""
    emitted, failures = [], {}
    for row, event in enumerate(events):
        result = kind.trigger(params, None, event, Given("r.1/x", row + 5))
        if result.failure is not None:
            failures.setdefault(result.failure, []).append(row)
        emitted += [(row, each) for each in result.emitted]
    return emitted, failures


@pytest.mark.parametrize(("name", "at"), TRIALS)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(data=st.data())
def test_a_batch_gives_what_its_events_give(name, at, data):
    """The same events of the same rows, and the same failures, whatever the types."""
    events = data.draw(columns(name))
    batch = to_batch(events)
    if batch is None:
        return
    assert from_batch(batch) == events
    kind = actor_types()[name]
    params, problems = read(PARAMS[name][at], kind.params, "invalid-actor")
    assert not problems
    numbers = np.arange(5, 5 + len(events))
    found = kind.batch(params, batch, BatchGiven("r.1/x", numbers))
    if found is None:
        return
    emitted, failures = one_by_one(kind, params, events)
    assert found.rows.tolist() == [row for row, _ in emitted]
    shown = from_batch(found.events) if found.events.num_rows else []
    assert [written(each) for each in shown] == [written(each) for _, each in emitted]
    assert {reason: rows.tolist() for reason, rows in found.failures.items()} == failures


def written(event):
    """The event with the kinds of its numbers, so that 1 and 1.0 differ."""
    if isinstance(event, dict):
        return {name: written(value) for name, value in event.items()}
    if isinstance(event, list):
        return [written(value) for value in event]
    return type(event).__name__, event


@pytest.mark.parametrize("name", sorted(PARAMS))
def test_usual_events_are_taken_as_a_batch(name):
    """Events of one shape, without nulls, are never left to be taken one by one."""
    kind = actor_types()[name]
    params, _ = read(PARAMS[name][0], kind.params, "invalid-actor")
    text = name in {"filter", "lookup"}
    events = [
        {"a": "ab" if text else n, "b": "x" if text else {"x": n} if name == "json" else n}
        for n in range(10)
    ]
    batch = to_batch(events)
    assert kind.batch(params, batch, BatchGiven("r", np.arange(10))) is not None


@pytest.mark.parametrize(
    "events",
    [
        [{"a": 1}, {"a": 1.5}],
        [{"a": 1}, {"a": "x"}],
        [{"a": 1}, {"a": True}],
        [{"a": None}, {}],
        [{"a": {}}],
        [{"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}],
        [{"a": [1, "x"]}],
        [{"a": 2**63}],
        [{"a": float("nan")}],
        [{"a": "\ud800"}],
        [{}],
    ],
)
def test_events_that_fit_no_columns(events):
    """What columns could not tell apart again is left to be taken one by one."""
    assert to_batch(events) is None


@pytest.mark.parametrize(
    "events",
    [
        [{"a": 1}, {}, {"b": "x"}],
        [{"a": None}, {"a": 5}],
        [{"a": None}],
        [{"a": {"b": {"c": [1, None]}}}, {"a": {"d": True}}, {}],
        [{"a": []}, {"a": [{"b": 1}, {"c": 2}]}],
        [{"a": 0.5, "é": "ü"}],
    ],
)
def test_events_come_back_from_columns(events):
    """Absent fields stay absent, and nulls that were written stay written."""
    batch = to_batch(events)
    assert from_batch(batch) == events
    assert from_batch(batch.slice(1)) == events[1:]


def test_columns_of_other_widths_are_taken():
    """A depot's own columns: small floats, small ints, dictionaries."""
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1.5, 0.1], pa.float32()),
            pa.array([3, None], pa.int16()),
            pa.array(["ab", "x"]).dictionary_encode(),
        ],
        names=["f", "i", "t"],
    )
    whole = BatchGiven("r", np.arange(2))
    for name, given_params in (
        ("threshold", {"key": "f", "threshold": 0.1}),
        ("threshold", {"key": "i", "threshold": 2.5}),
        ("lookup", {"key": "t", "lookup": {"ab": {"n": 1}}, "function": "enrich"}),
        ("linearregression", {"intercept": 0, "weights": {"f": 3}}),
    ):
        kind = actor_types()[name]
        params, _ = read(given_params, kind.params, "invalid-actor")
        found = kind.batch(params, batch, whole)
        emitted, failures = one_by_one(kind, params, from_batch(batch))
        assert from_batch(found.events) == [each for _, each in emitted]
        assert sum(map(len, found.failures.values())) == sum(map(len, failures.values()))
