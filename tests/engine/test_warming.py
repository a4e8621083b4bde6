"""Stores that a unit will own are built before it owns them."""

from __future__ import annotations

from pathlib import Path

import pytest

import atoll
from atoll import Map, agg, path
from atoll.engine.warming import warm_up
from atoll.errors import NotFoundError
from atoll.placement.placement import placement_of
from atoll.pstate.store.stores import module_stores

KEYS = 50


@pytest.fixture
def app(tmp_path):
    """Counts by key and a sum, on the inline engine."""
    module = atoll.Module("warm")
    rows = module.depot("rows", "k long", partition_by="k")
    mb = module.microbatch("mb", vnode_count=8)
    counts = mb.pstate("counts", Map(int, int))
    total = mb.pstate("total", int, initial=0)
    stream = mb.source(rows)
    stream.aggregate(counts["k"], agg.count())
    stream.aggregate(total, agg.count())
    with atoll.LocalCluster(tmp_path / "root", engine="inline", parallelism=3) as cluster:
        yield cluster.deploy(module)


def _round(app, number):
    app.depot("rows").append([{"k": key} for key in range(KEYS)])
    app.topology("mb").wait_processed(KEYS * number)
    return app.topology("mb").status()["opened"]


def test_what_was_built_before_is_current_when_it_is_needed(app):
    """The unit that was got ready finds its stores; the others build theirs."""
    _round(app, 1)
    assert _round(app, 2) == {"current": 9}
    loop = app._loops["mb"]
    program, last = loop.actions.executor.program, loop.published
    stores = module_stores(str(app.local), "warm")
    for name, spec in program.pstates.items():
        for vnode in range(spec.vnode_count):
            stores.discard(name, vnode)
    warm_up(program, 1, last.id, last.timeline)
    ready = sum(len(program.owned(name, 1)) for name in program.pstates)
    assert 0 < ready < 9
    opened = _round(app, 3)
    assert opened == {"current": ready, "absent": 9 - ready}
    assert dict(app.pstate("counts").select(path.all())) == dict.fromkeys(range(KEYS), 3)


@pytest.mark.parametrize("shares", [1, 2, 3, 20])
def test_all_shares_are_all_stores(app, shares):
    """Each once, however many there are."""
    _round(app, 1)
    loop = app._loops["mb"]
    program, last = loop.actions.executor.program, loop.published
    stores = module_stores(str(app.local), "warm")
    names = [(name, vnode) for name in program.pstates for vnode in program.owned(name, 1)]
    for name, vnode in names:
        stores.discard(name, vnode)
    built = []
    for share in range(shares):
        warm_up(program, 1, last.id, last.timeline, (share, shares))
        built.append(sum(Path(stores.path(*each)).exists() for each in names))
    assert built[-1] == len(names)
    assert built == sorted(built)
    assert shares == 1 or built[0] < len(names)


def test_before_the_first_commit_there_is_nothing_to_do(app):
    """No store is made."""
    program = app._loops["mb"].actions.executor.program
    warm_up(program.placed(placement_of(app.cluster.info(), "mb")), 0, 0, 0)
    assert not (app.local / "state" / "warm").exists()


def test_a_commit_that_was_never_made_is_said(app):
    """Whoever asked goes on without."""
    _round(app, 1)
    with pytest.raises(NotFoundError):
        warm_up(app._loops["mb"].actions.executor.program, 0, 99, 0)


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_commit_that_was_the_last_long_ago_is_followed_by_the_last(tmp_path, seconds):
    """The topology commits faster than many stores are built, whether it can be read or not."""
    module = atoll.Module("fast")
    rows = module.depot("rows", "k long", partition_by="k")
    options = {"pstate.history.seconds": seconds, "pstate.checkpoint.interval.commits": 2}
    mb = module.microbatch("mb", vnode_count=8, options=options)
    counts = mb.pstate("counts", Map(int, int))
    mb.source(rows).aggregate(counts["k"], agg.count())
    with atoll.LocalCluster(tmp_path / "root", engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(module)
        for number in range(1, 13):
            _round(app, number)
        app.topology("mb").pause()
        program = app._loops["mb"].actions.executor.program
        stores = module_stores(str(app.local), "fast")
        for vnode in range(8):
            stores.discard("counts", vnode)
        warm_up(program, 0, 1, 0)
        app.topology("mb").resume()
        opened = _round(app, 13)
        ready = len(program.owned("counts", 0))
        assert opened == {"current": ready, "absent": 8 - ready}
