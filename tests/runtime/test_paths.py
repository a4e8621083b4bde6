"""Holds path expressions and templates: acceptance case 11."""

from __future__ import annotations

import pytest

from atoll.runtime.paths import find, parse_path

EVENT = {
    "field": {"inner": {"array": [{"inner2": "no"}, {"inner2": "value"}]}},
    "list": [{"a": 1}, {"a": 2, "b": 3}, {"inner2": {"nested": 1}}],
    "nothing": None,
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("list[0]", {"a": 1}),
        ("field.inner.array[1].inner2", "value"),
        ("field['inner']", EVENT["field"]["inner"]),
        ("list[2].inner2['nested']", 1),
        ("list[4]", None),
        ("field.inner[0]", None),
        ("list['field']", None),
        ("field.inner[0][1].field", None),
        ("field.inner...object]]field']", None),
        ("*", EVENT),
        (" * ", EVENT),
        ("list.b", 3),
        ("list.a", [1, 2]),
        ("list.c", None),
        ("nothing", None),
        ("nothing.more", None),
        ("missing", None),
        ("", None),
        (".", None),
        ("a..b", None),
        ("*.field", None),
        ("list[-1]", None),
        ("list[00]", {"a": 1}),
        ("list[9999999999]", None),
        ("field.__class__", None),
        ("x" * 2_000, None),
        (".".join("x" * 40), None),
    ],
)
def test_case_11_path_expressions(expression, expected):
    """What lies there; nothing for what is not there and for what is no expression."""
    assert find(parse_path(expression), EVENT) == expected


@pytest.mark.parametrize(
    "malformed", ["", "a[0][1]", "a[x]", "a[-1]", "a['b]", "a b", "a.", "${a}", "a\n.b", "a[']']"]
)
def test_what_is_malformed_is_known(malformed):
    """Where it stands in a definition it is refused."""
    assert parse_path(malformed) is None
