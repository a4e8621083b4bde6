"""Holds what the stateless types do: acceptance cases 1, 2, 7 to 10 and 12."""

from __future__ import annotations

import pytest

from atoll.runtime.actors.interface import Given
from atoll.runtime.actors.sample import passes

CITIES = {
    "amsterdam": {"country": "netherlands", "population": 800000},
    "vancouver": {"country": "canada", "population": 600000},
}


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
def test_case_1_threshold(actor, event, expected):
    """What reaches the threshold passes; what is no number is a failure."""
    assert actor("threshold", key="key1", threshold=10.5).send(event) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"field1": 7}, {"field1": 10.0}),
        ({"field1": 15.3}, {"field1": 13.5}),
        ({"field1": 11.7}, {"field1": 11.7}),
        ({"otherfield": 15.3}, {"otherfield": 15.3}),
        ({"field1": "7"}, {"field1": "7"}),
        ({"field1": 10**400}, {"field1": 13.5}),
        ({"field1": 12, "deep": {"field1": 99}}, {"field1": 12.0, "deep": {"field1": 99}}),
    ],
)
def test_case_2_minmax(actor, event, expected):
    """The number is brought within bounds and has decimals; anything else stays."""
    (found,) = actor("minmax", field="field1", min=10.0, max=13.5).send(event)
    assert found == expected
    assert isinstance(found.get("field1", 0.0), float | str)


def test_case_2_minmax_needs_room_between_its_bounds(misfits):
    """Bounds that are equal, or the wrong way round, are refused."""
    assert misfits("minmax", field="f", min=1, max=1) == {"/min"}


@pytest.mark.parametrize(
    ("function", "event", "passed"),
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
def test_case_7_filter(actor, function, event, passed):
    """Include and exclude are opposites; a missing field begins with nothing."""
    rule = {"type": "startswith", "function": function, "field": "field", "param": "start"}
    assert actor("filter", filters=[rule]).send(event) == [event] * passed


def test_case_7_every_filter_must_pass(actor, misfits):
    """Two includes: both must match. None, or one of an unknown type, is refused."""
    first, second = (
        {"type": "startswith", "function": "include", "field": field, "param": "start"}
        for field in ("a", "b")
    )
    both = actor("filter", filters=[first, second])
    assert both.send({"a": "start", "b": "starting"})
    assert not both.send({"a": "start", "b": "end"})
    assert misfits("filter", filters=[]) == {"/filters"}
    assert misfits("filter", filters=[first, {**second, "type": "x"}]) == {"/filters/1/type"}
    assert misfits("filter") == {""}


@pytest.mark.parametrize(
    ("function", "event", "expected"),
    [
        ("enrich", {"city": "amsterdam"}, [{"city": "amsterdam", **CITIES["amsterdam"]}]),
        ("filter", {"city": "amsterdam"}, [{"city": "amsterdam"}]),
        ("check", {"city": "amsterdam"}, [CITIES["amsterdam"]]),
        ("enrich", {"city": "utrecht"}, [{"city": "utrecht"}]),
        ("filter", {"city": "utrecht"}, []),
        ("check", {"city": "utrecht"}, []),
        ("check", {"other": "amsterdam"}, None),
        (
            "enrich",
            {"city": "amsterdam", "country": "x"},
            [{"city": "amsterdam", **CITIES["amsterdam"]}],
        ),
    ],
)
def test_case_8_lookup(actor, function, event, expected):
    """Enrich adds, filter lets pass, check answers with what was found."""
    assert actor("lookup", key="city", lookup=CITIES, function=function).send(event) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            "enrich",
            {"city": "x", "province": "noord-holland", "country": "unknown", "population": 0},
        ),
        ("filter", {"country": "unknown", "population": 0, "province": "noord-holland"}),
        ("check", {"country": "unknown", "population": 0, "province": "noord-holland"}),
    ],
)
def test_case_8_the_default_is_a_template(actor, function, expected):
    """What is not found is answered with the default, filled from the event."""
    default = {"country": "unknown", "population": 0, "province": "${province}"}
    lookup = actor("lookup", key="city", lookup=CITIES, function=function, default=default)
    assert lookup.send({"city": "x", "province": "noord-holland"}) == [expected]


def test_case_8_startswith(actor, misfits):
    """The longest text of the table that the field begins with is the one found."""
    table = {"amster": {"n": 1}, "amsterdam": {"n": 2}, "ams": {"n": 3}}
    lookup = actor("lookup", key="city", lookup=table, function="check", match="startswith")
    assert lookup.send({"city": "amsterdam, noord-holland"}) == [{"n": 2}]
    assert lookup.send({"city": "rotterdam"}) == []
    assert misfits("lookup", key="city", lookup=CITIES) == {""}
    assert misfits("lookup", lookup=CITIES, function="check") == {""}
    assert misfits("lookup", key="city", function="map", lookup=CITIES) == {"/function"}


def test_case_9_linear_regression(actor):
    """The scores of Coral's tests, and of its page's example."""
    model = actor("linearregression", intercept=0, weights={"age": 0.2, "salary": 0.1})
    assert model.send({"salary": 4000, "age": 40}) == [{"salary": 4000, "age": 40, "score": 408.0}]
    assert model.send({"salary": 4000}) is None
    assert model.send({"salary": 1, "age": 1, "score": 7}) == [{"salary": 1, "age": 1, "score": 7}]
    assert model.send({"salary": 10**400, "age": 1}) is None
    model = actor("linearregression", intercept=0, weights={"salary": 10})
    assert model.send({"salary": 2000})[0]["score"] == 20000.0
    weights = {"amount": 0.47353, "age": 1.86766, "hour": 4.52352}
    model = actor("linearregression", intercept=3.972, weights=weights)
    (found,) = model.send({"amount": 3000, "age": 25, "hour": 30})
    assert found["score"] == pytest.approx(1606.9591, abs=1e-9)


def test_case_10_templates(actor, misfits):
    """Texts that are one expression are values; everything else is itself."""
    template = {
        "a": "ALPHA",
        "b": "${beta}",
        "c": {"d": 123, "e": "${epsilon}"},
        "f": 1,
        "g": 1.0,
        "h": "${nothing}",
        "i": "${ field.sub.subsub }",
        "j": "${array[1]}",
        "k": ["${beta}", "x${beta}"],
        "l": "${*}",
    }
    event = {
        "beta": "xyz",
        "epsilon": 987,
        "field": {"sub": {"subsub": [1]}},
        "array": ["a0", "a1", "a2"],
    }
    assert actor("json", template=template).send(event) == [
        {
            "a": "ALPHA",
            "b": "xyz",
            "c": {"d": 123, "e": 987},
            "f": 1,
            "g": 1.0,
            "h": None,
            "i": [1],
            "j": "a1",
            "k": ["xyz", "x${beta}"],
            "l": event,
        }
    ]
    assert misfits("json", template={"a": {"b": "${x[0][1]}"}}) == {"/template/a/b"}
    assert misfits("json", template="x") == {"/template"}


def test_case_12_sample(actor, misfits):
    """A number below the fraction lets pass; without a fraction there is no sample."""
    drawn = [0.1, 0.49, 0.50, 0.51, 0.8, 0.4]
    assert [passes(0.5, each) for each in drawn] == [True, True, False, False, False, True]
    assert misfits("sample") == {""}
    assert misfits("sample", fraction=1.5) == {"/fraction"}
    assert misfits("sample", fraction=-0.1) == {"/fraction"}


def test_a_sample_decides_alike_at_every_attempt(actor):
    """What passes follows from the identity, in the share that was asked for."""
    sample = actor("sample", fraction=0.3)
    first, again = (
        [
            bool(sample.kind.trigger(sample.params, None, {}, Given("r.1/a", at)).emitted)
            for at in range(10_000)
        ]
        for _ in range(2)
    )
    assert first == again
    assert sum(first) == pytest.approx(3_000, abs=150)


def test_httpbroadcast_passes_everything(actor, misfits):
    """It has no params, and says so."""
    assert actor("httpbroadcast").send({"a": 1}) == [{"a": 1}]
    assert misfits("httpbroadcast", url="x") == {"/url"}
