"""Holds that a reverse log gives back what was put in, by every way of reading it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atoll.errors import DamageError
from atoll.pstate.store import reverse_log
from atoll.pstate.store.entries import Bounds
from atoll.pstate.store.overlay import UNTOUCHED, Overlay
from atoll.pstate.store.reverse_log import ReverseLog, encode_reverse_log

KEYS = st.binary(min_size=1, max_size=20)
OLDS = st.dictionaries(KEYS, st.none() | st.binary(max_size=30), max_size=40)


@given(OLDS, st.lists(KEYS))
def test_round_trip(olds, others):
    """Keys, values and absence survive; a search finds exactly the keys that are there."""
    keys = sorted(olds)
    log = ReverseLog(encode_reverse_log(keys, [olds[key] for key in keys]))
    assert list(log.items()) == [(key, olds[key]) for key in keys]
    assert list(log) == keys
    for key in {*keys, *others}:
        position = log.position(key)
        assert (position >= 0) == (key in olds)
        if position >= 0:
            assert log.old(position) == olds[key]


@given(OLDS)
@example({bytes([n]): None if n % 3 else b"v" * n for n in range(64)})
@example({})
def test_a_few_keys_are_packed_to_the_same_bytes(olds):
    """By hand as by Arrow: who reads a log cannot tell."""
    keys = sorted(olds)
    values = [olds[key] for key in keys]
    by_hand = encode_reverse_log(keys, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reverse_log, "_FEW", -1)
        assert encode_reverse_log(keys, values) == by_hand


def test_a_few_keys_may_be_too_large(monkeypatch):
    """What offsets cannot hold goes the way on which it is refused."""
    monkeypatch.setattr(reverse_log, "_OFFSET_MAX", 8)
    assert reverse_log._encoded_few([b"k"], [b"123456789"]) is None
    assert reverse_log._encoded_few([b"123456789"], [None]) is None
    assert list(ReverseLog(encode_reverse_log([b"k"], [b"123456789"])).items()) == [
        (b"k", b"123456789")
    ]


@given(OLDS, OLDS, st.lists(KEYS))
def test_overlay_prefers_the_oldest(first, second, others):
    """Of two logs, what the earlier one says of a key is how it was at the commit."""
    logs = [
        ReverseLog(encode_reverse_log(sorted(olds), [olds[key] for key in sorted(olds)]))
        for olds in (first, second)
    ]
    overlay = Overlay(logs)
    wanted = {**second, **first}
    for _ in range(3):  # searched in place first, from a table later
        for key in {*wanted, *others}:
            assert overlay.find(key) == wanted.get(key, UNTOUCHED)


@given(st.lists(OLDS.filter(bool), max_size=6), st.lists(KEYS), st.integers(0, 6), st.booleans())
def test_overlays_on_top_of_each_other_are_one(parts, others, cut, asked):
    """Extended by later logs, or before another overlay: the same as one of all logs."""
    logs = [
        ReverseLog(encode_reverse_log(sorted(olds), [olds[key] for key in sorted(olds)]))
        for olds in parts
    ]
    whole, first = Overlay(logs), Overlay(logs[:cut])
    keys = sorted({*others, *(key for olds in parts for key in olds)})
    pairs = [(key, b"now") for key in keys[::2]]
    if asked:  # so that it is a table already
        first.over_page(pairs, Bounds())
    for overlay in (first.extended(logs[cut:]), Overlay(logs[cut:], first)):
        assert bool(overlay) == bool(logs)
        assert overlay.over_page(pairs, Bounds()) == whole.over_page(pairs, Bounds())
        assert [overlay.find(key) for key in keys] == [whole.find(key) for key in keys]
    assert first.over_page(pairs, Bounds()) == Overlay(logs[:cut]).over_page(pairs, Bounds())


def test_absent_is_not_empty():
    """No value and an empty value are two things."""
    log = ReverseLog(encode_reverse_log([b"a", b"b"], [None, b""]))
    assert log.olds() == [None, b""]


@pytest.mark.parametrize("damage", [b"", b"ARL1", b"XXXX" + bytes(20)])
def test_damage_is_seen(damage):
    """Bytes that are no reverse log are refused."""
    with pytest.raises(DamageError):
        ReverseLog(damage)


def test_cut_off_is_seen():
    """A reverse log that lost its end is refused."""
    with pytest.raises(DamageError):
        ReverseLog(encode_reverse_log([b"a"], [b"value"])[:-1])
