"""Pins: who made them, who may drop them, and what they keep."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from atoll.errors import StateError
from atoll.microbatch.commits.objects import GENESIS
from atoll.microbatch.plans import mirrored
from atoll.microbatch.plans.mirrored import (
    MirroredTopologies,
    drop_stale_pins,
    lowest_pin,
    readers_above,
)
from atoll.storage.local import LocalStore

READ = [("shop", "keep")]


@pytest.fixture
def store(tmp_path):
    """An empty root: every topology is at the progress before its first commit."""
    return LocalStore(tmp_path)


def life(store, epoch, reader="count", read=READ):
    """A life of a reader."""
    return MirroredTopologies(store, ("shop", reader), read, epoch)


def test_a_microbatch_drops_its_pins_and_older_ones_of_its_own_topology(store):
    """Those of others stay, and those of later microbatches."""
    one, other = life(store, 1), life(store, 1, "other")
    assert one.pin(5) == other.pin(5) == {"shop/keep": 0}
    one.pin(6)
    assert lowest_pin(store, "shop", "keep") == 0
    one.release(5)
    assert len(store.list("shop/keep/pins")) == 2
    one.release(6)
    assert readers_above(store, "shop", "keep", -1) == ["shop.other"]
    other.release()
    assert lowest_pin(store, "shop", "keep") is None


def test_a_life_drops_nothing_of_a_later_one(store):
    """It may have stood still for long, and the later one may have gone back to lower numbers."""
    early, late = life(store, 1), life(store, 2)
    early.pin(7)
    late.pin(3)
    early.release(7)
    early.release()
    drop_stale_pins(store, "shop", {}, epoch=2)
    assert len(store.list("shop/keep/pins")) == 1
    late.release(3)
    assert store.list("shop/keep/pins") == []


def test_pins_that_nobody_reads_go_with_the_next_life(store):
    """Of a topology that is gone, or reads something else; other modules' pins stay."""
    life(store, 1).pin(1)
    life(store, 1, "gone").pin(1)
    MirroredTopologies(store, ("till", "count"), READ, 1).pin(1)
    drop_stale_pins(store, "shop", {"count": READ}, epoch=2)
    assert readers_above(store, "shop", "keep", -1) == ["shop.count", "till.count"]
    drop_stale_pins(store, "shop", {"count": [("shop", "else")]}, epoch=2)
    assert readers_above(store, "shop", "keep", -1) == ["till.count"]


def test_a_plan_is_completed_once(store):
    """What it names stands; what it misses is pinned by the first attempt."""
    reader = life(store, 1, read=[*READ, ("bank", "mb")])
    named = {"bank/mb": 4}
    assert reader.completed(9, named) == {"bank/mb": 4, "shop/keep": 0}
    assert reader.completed(9, named) == {"bank/mb": 4, "shop/keep": 0}
    assert len(store.list("shop/keep/pins")) == 1
    assert store.list("bank/mb/pins") == []
    assert reader.completed(9, {**named, "shop/keep": 3})["shop/keep"] == 3


def test_one_commit_may_come_while_another_is_pinned(store, monkeypatch):
    """The one after it keeps two before it; what commits faster than that is told, in time."""

    def committing(by):
        ids = itertools.count(5, by)
        heads = (msgspec.structs.replace(GENESIS, id=number) for number in ids)
        monkeypatch.setattr(mirrored, "latest_commit", lambda *_: next(heads))

    committing(1)
    assert life(store, 1).pin(1) == {"shop/keep": 5}
    assert lowest_pin(store, "shop", "keep") == 5
    committing(2)
    with pytest.raises(StateError, match="faster than it can be pinned"):
        life(store, 1).pin(2)
    assert len(store.list("shop/keep/pins")) == 1
