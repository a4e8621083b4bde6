"""What user functions raise says where: operator, row, and the line in the user's own code."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from atoll.errors import StateError, UserCodeError
from atoll.topology.rows import rows_of
from atoll.topology.usercode import calling

STEP = SimpleNamespace(title="map", place="shop.py:12")


def _row():
    return next(rows_of(pa.RecordBatch.from_pylist([{"k": "x" * 1000}])))


def _parse(text):
    return json.loads(text)  # the line that is to blame


def test_the_line_is_the_users_own():
    """Not one of the library that the user's code called."""
    blamed = _parse.__code__.co_firstlineno + 1
    for call in (lambda: _parse("{"), lambda: json.loads("{")):
        with pytest.raises(UserCodeError) as caught, calling(STEP, _row()):
            call()
        assert "JSONDecodeError in a function of map" in caught.value.message
        assert caught.value.context["line"].rsplit("/", 1)[-1].startswith("test_usercode.py:")
    with pytest.raises(UserCodeError) as caught, calling(STEP, None):
        _parse("{")
    assert caught.value.context["line"].endswith(f"test_usercode.py:{blamed}")
    assert "row" not in caught.value.context


def test_rows_are_shown_in_part():
    """However long they are."""
    with pytest.raises(UserCodeError) as caught, calling(STEP, _row()):
        dt.date(2026, 13, 1)
    assert caught.value.context["row"].startswith("Row(k='xxx")
    assert len(caught.value.context["row"]) <= 500
    assert caught.value.context["operator"] == "map"
    assert caught.value.context["declared"] == "shop.py:12"


def test_errors_of_atolls_own_learn_where():
    """A handle used wrongly keeps its code and hint."""
    with pytest.raises(StateError) as caught, calling(STEP, _row()):
        raise StateError("key 3 does not fit str", hint="give text", operator="inner")
    error = caught.value
    assert (error.hint, error.context["operator"]) == ("give text", "inner")
    assert error.context["row"].startswith("Row(")
    assert "test_usercode.py:" in error.context["line"]
