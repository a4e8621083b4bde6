"""Values as JSON: nothing is lost, nothing is ambiguous."""

import datetime as dt
import decimal
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.server.render import render, render_json

UTC = dt.UTC


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        ("a\0ü", "a\0ü"),
        (b"\x00\xff", "AP8="),
        (decimal.Decimal("12.50"), "12.50"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.datetime(2024, 2, 29, 12, 0, 0, 1, UTC), "2024-02-29T12:00:00.000001Z"),
        (
            dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "2024-02-29T10:00:00Z",
        ),
        ((1, "a", None), [1, "a", None]),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ({1: "x", 2: "y"}, {"1": "x", "2": "y"}),
        ({(1, "a"): 1}, {'[1,"a"]': 1}),
        ({True: 1, False: 0}, {"true": 1, "false": 0}),
        ({dt.date(2024, 1, 1): 1}, {"2024-01-01": 1}),
        ({None: 1, "null": 2}, [[None, 1], ["null", 2]]),
        ({1: "int", "1": "str"}, [[1, "int"], ["1", "str"]]),
        (np.int64(7), 7),
    ],
    ids=repr,
)
def test_each_kind(value, expected):
    """Every kind that a PState holds, and keys that are no strings."""
    assert render(value) == expected


def test_maps_keep_their_order():
    """The order of the state's keys is the order of the object."""
    assert list(json.loads(render_json({3: 0, 10: 0, 1: 0}))) == ["3", "10", "1"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.none() | st.integers(), inner)
        ),
        max_leaves=20,
    )
)
def test_always_strict_json(value):
    """Whatever is rendered parses as strict JSON, without NaN."""

    def refuse(text):
        raise AssertionError(text)

    json.loads(render_json(value), parse_constant=refuse)
