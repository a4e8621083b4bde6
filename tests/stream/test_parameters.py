"""A query's parameters: what cannot be a column of its first row is refused when declared."""

from __future__ import annotations

import pytest

import atoll
from atoll import List, Map, Set, Struct
from atoll.errors import DeclarationError
from atoll.testing import TopologyTestDriver

MAP, SET = Map(str, int), Set(int)
ENTRIES = List(Struct(key=str, value=int))


@pytest.mark.parametrize(
    ("declared", "words", "hint", "instead", "given"),
    [
        (MAP, "be a map", "List(Struct(key=..., value=...))", ENTRIES, [{"key": "a", "value": 1}]),
        (List(MAP), "hold a map", "List(Struct(", List(ENTRIES), [[{"key": "a", "value": 1}]]),
        (Struct(n=int, m=MAP), "hold a map", "List(Struct(", Struct(m=ENTRIES), {"m": []}),
        (SET, "be a set", "List(...)", List(int), [1]),
        (List(List(SET)), "hold a set", "List(...)", List(List(List(int))), [[[1]]]),
        (List(Struct(s=SET)), "hold a set", "List(...)", List(Struct(s=List(int))), [{"s": [1]}]),
    ],
)
def test_maps_and_sets_are_refused_at_any_depth(declared, words, hint, instead, given):
    """They were accepted within a list, and failed when somebody asked; what to write works."""
    module = atoll.Module("asked")
    with pytest.raises(DeclarationError, match=f"parameter 'm' cannot {words}") as raised:
        module.query("q", m=declared)
    assert hint in raised.value.hint
    assert "test_parameters.py" in raised.value.context["declared"]
    module.query("q", m=instead).map(lambda row: {"t": repr(row.m)}, emits="t string").returns("t")
    with TopologyTestDriver(module, engine="inline") as driver:
        assert driver.app.query("q", m=given) == repr(given)
