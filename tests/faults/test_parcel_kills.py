"""Rows for another module's depot, with both processes cut off before each call that changes files.

From that call on nothing reaches the disk any more, which is what a kill leaves behind, but for
the store files of LMDB, which are rebuilt. Then new lives go on, and every row is there once.
"""

from __future__ import annotations

import contextlib
import errno
import shutil

import pytest
from harness import soaking
from interpose import Interposer

import atoll
from atoll import start
from atoll.errors import AtollError
from atoll.testing import TopologyTestDriver

DDL = "item string, n long"
WHERE = "shop/depots/sales/"
"""The calls here are those on the way between the two: a third of them, in soak all."""


def shop():
    """Owns the depot."""
    module = atoll.Module("shop")
    module.depot("sales", DDL, partition_by="item", partitions=2)
    return module


def till():
    """Appends to it, from one depot."""
    module = atoll.Module("till")
    sold = module.depot("sold", DDL, partition_by="item", partitions=1)
    mb = module.microbatch("mb", vnode_count=1)
    rows = mb.source(sold, start_from=start.beginning())
    rows.append_to(module.mirror_depot("shop", "sales", DDL))
    return module


@contextlib.contextmanager
def lives(root):
    """Both modules, as two processes on one root."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(TopologyTestDriver(each(), root=root)) for each in (shop, till)]
        yield made


def go_on(owner, sender):
    """What is left to do, one microbatch at a time; each is taken when the next one is made."""
    while sender.app.topology("mb").status()["lag"]["sold"] != [0]:
        sender.microbatch(max_records=3)
        owner.app.take_parcels()
    owner.app.take_parcels()


def numbers(depot):
    """By depot partition what it holds, in order."""
    return [
        [row["n"] for batch in depot.tail(partition=part, follow=False) for row in batch.rows()]
        for part in (0, 1)
    ]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A root with six records to pass on, of which nothing has been passed on; and how they lie."""
    root = tmp_path_factory.mktemp("parcels") / "root"
    with lives(root) as (_, sender):
        sender.depot("sold").append([{"item": f"i{n}", "n": n} for n in range(6)])
    whole = shutil.copytree(root, root.parent / "whole")
    with lives(whole) as (owner, sender):
        go_on(owner, sender)
        return root, numbers(owner.depot("sales"))


def test_an_undisturbed_life_passes_all_on(begun):
    """What the others are held against."""
    _, expected = begun
    assert sorted(n for part in expected for n in part) == list(range(6))


def test_cut_off_before_any_call_every_row_arrives_once_and_in_order(begun, tmp_path):
    """While it is made, sent, taken and dropped; and the parcels are gone in the end."""
    root, expected = begun
    calls = _cut_off(shutil.copytree(root, tmp_path / "count"), 0)
    between = [call.number for call in calls if call.path.startswith(WHERE)]
    assert len(between) > 30
    numbers_cut = [call.number for call in calls] if soaking() else between[::3]
    for number in numbers_cut:
        trial = shutil.copytree(root, tmp_path / f"at-{number}")
        _cut_off(trial, number)
        with lives(trial) as (owner, sender):
            sender.run_until_idle()
            owner.app.take_parcels()
            assert numbers(owner.depot("sales")) == expected, number
            assert owner.app.status()["depots"]["sales"]["parcels"][0]["waiting_records"] == 0
        assert not [path for path in trial.rglob("parcel-rows/**/*") if path.is_file()], number
        shutil.rmtree(trial)


def _cut_off(root, number):
    """A life whose calls have no effect from that number on; all its calls."""
    calls = []
    with lives(root) as (owner, sender):
        interposer = Interposer(root)
        interposer.on_call = calls.append
        with interposer:
            if number:
                interposer.fail_at(number, errno.EIO, times=None)
            with contextlib.suppress(AtollError, OSError):
                go_on(owner, sender)
            for each in (sender, owner):
                with contextlib.suppress(AtollError, OSError):
                    each.cluster.kill()
    return calls
