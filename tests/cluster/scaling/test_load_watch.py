"""Growing and shrinking by load: samples of a running topology lead to resizes within bounds."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from atoll import LocalCluster, Map, Module, agg
from atoll.cluster.scaling.load_watch import LoadWatch
from atoll.placement.policies.load import LoadOptions

OPTIONS = LoadOptions(samples=2, cool_down_seconds=3)


def build(parallelism):
    """A topology that counts."""
    module = Module("m")
    depot = module.depot("d", "k long")
    mb = module.microbatch("mb", vnode_count=8, parallelism=parallelism)
    mb.source(depot).aggregate(mb.pstate("counts", Map(int, int))["k"], agg.count())
    return module


class Topology:
    """What the watch sees of a topology; the test says how busy it is and what waits."""

    def __init__(self):
        self.depot = SimpleNamespace(end_offsets=lambda: (self.end,))
        self.depots = {"d": self.depot}
        self.end = self.done = 0
        self.worked = 0.0
        self.status = SimpleNamespace(worked_seconds=lambda: self.worked)

    @property
    def published(self):
        """The last commit."""
        return SimpleNamespace(processed=self.done, ends=lambda: {"d": [self.done]})

    def second(self, busy, records=1000, left=0):
        """A second passes: so much of it was worked, so many records came, so many are left."""
        self.worked += busy
        self.end += records
        self.done = self.end - left


@pytest.fixture
def app(tmp_path):
    """A topology by load, of one to six units, on a cluster with eight; it begins with six."""
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=8) as cluster:
        yield cluster.deploy(build("load(1,6)"))


def _units(app):
    return len(app.cluster.info().fragment(2).units)


def test_it_shrinks_while_it_idles_and_grows_when_it_cannot_keep_up(app):
    """Step by step down to the least, doubling up to the most."""
    topology = Topology()
    watch = LoadWatch(app.cluster, {"mb": topology}, OPTIONS)
    assert _units(app) == 6  # a new topology may have everything to catch up with
    sizes = []
    for second in range(90):
        watch.look(float(second))
        if second < 45:
            topology.second(busy=0.01)
        else:
            topology.second(busy=1.0, left=second * 10_000)
        sizes.append(_units(app))
    assert sizes[:45] == sorted(sizes[:45], reverse=True)
    assert sizes[44] == 1
    assert sizes[45:] == sorted(sizes[45:])
    assert set(sizes[45:]) == {1, 2, 4, 6}
    assert app.cluster.info().policies["mb"] == "load(1,6)"


def test_other_policies_are_left_alone(tmp_path):
    """It is off unless asked for."""
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=8) as cluster:
        app = cluster.deploy(build("fixed(4)"))
        topology = Topology()
        watch = LoadWatch(app.cluster, {"mb": topology}, OPTIONS)
        for second in range(20):
            watch.look(float(second))
            topology.second(busy=1.0, left=10**6)
        assert _units(app) == 4


def test_a_running_topology_tells_how_much_it_works(app):
    """The share of time in which it does not wait; idle it is none."""
    loop = app._loops["mb"]
    before = loop.status.worked_seconds()
    app.depot("d").append([{"k": n % 50} for n in range(5_000)])
    app.topology("mb").wait_processed(5_000)
    worked = loop.status.worked_seconds() - before
    assert worked > 0
    began = time.monotonic()  # before the other clock is read: both run on
    idle_from = loop.status.worked_seconds()
    app.topology("mb").pause()
    assert loop.status.worked_seconds() - idle_from <= time.monotonic() - began
