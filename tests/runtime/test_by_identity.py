"""Holds that what is made of an object is made once, and is never another object's."""

from __future__ import annotations

from atoll.runtime.by_identity import ByIdentity


def test_each_object_once():
    """Equal objects are two; one that was asked for already is not made again."""
    asked = []
    made = ByIdentity(lambda of: asked.append(of) or len(asked))
    first, second = {"a": 1}, {"a": 1}
    assert [made(first), made(second), made(first), made(second)] == [1, 2, 1, 2]


def test_objects_that_are_gone_leave_no_answers():
    """However many come and go at the same place in memory, each has its own."""
    made = ByIdentity(lambda of: of["n"], most=16)
    assert [made({"n": n}) for n in range(1_000)] == list(range(1_000))
