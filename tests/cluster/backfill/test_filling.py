"""New PStates of a running topology, filled from the past: against a fresh module, and refusals.

On the inline engine; one test does the same on Spark.
"""

from __future__ import annotations

import datetime as dt
import json

import pytest

from atoll import LocalCluster, Module, agg, connect, path, start
from atoll.cluster.backfill.filling import Filling
from atoll.errors import DeployError, FillingError, StorageError, TopologyFailedError, UsageError
from atoll.testing import TopologyTestDriver

SECOND = dt.timedelta(seconds=1)
BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SMALL = {"depot.microbatch.max.records": 100, "topology.microbatch.empty.sleep.time.millis": 5}


def sales(first, count):
    """Records whose keys come again and again, and whose time goes on."""
    return [
        {"item": n % 13, "shop": n * 7 % 5, "cents": n % 40, "at": BEGAN + n * SECOND}
        for n in range(first, first + count)
    ]


def running_sum(row, latest):
    """Each shop's last item, and the sum of its cents."""
    before = latest.get(row.shop, {"item": 0, "cents": 0})
    latest[row.shop] = {"item": row.item, "cents": before["cents"] + row.cents}


def build(*new, options=SMALL, **declared):
    """A module whose topology sums by shop, and what else is named."""
    module = Module("shop")
    depot = module.depot(
        "sales",
        "item long, shop long, cents long, at timestamp",
        partition_by="shop",
        **{name: declared[name] for name in declared.keys() & {"retention", "partitions"}},
    )
    mb = module.microbatch("mb", vnode_count=4, options=options)
    rows = mb.source(depot, start_from=start.beginning())
    rows.aggregate(mb.pstate("by_shop", dict[int, int])["shop"], agg.sum("cents"))
    flag = declared.get("backfill", True)
    steps = {
        "by_item": lambda: rows.where(lambda row: row.cents > 3).aggregate(
            mb.pstate("by_item", dict[int, int], backfill=flag)["item"], agg.count()
        ),
        "shops": lambda: rows.aggregate(
            mb.pstate("shops", dict[int, int], backfill=flag)["item"], agg.count_distinct("shop")
        ),
        "latest": lambda: rows.process(
            running_sum,
            key="shop",
            states=[
                mb.pstate("latest", "map<long, struct<item: long, cents: long>>", backfill=flag)
            ],
        ),
        "minutes": lambda: (
            rows.with_watermark("at", "5 minutes")
            .window("at", "1 minute")
            .aggregate_windows("item", cents=agg.sum("cents"))
            .aggregate(
                mb.pstate("minutes", dict[int, int], backfill=flag)["item"], agg.sum("cents")
            )
        ),
    }
    for each in new:
        steps[each]()
    return module


def found(app, *names):
    """What readers see."""
    return {name: app.pstate(name).select(path.all()) for name in names}


ALL = ("by_item", "shops", "latest")


@pytest.fixture
def cluster(tmp_path):
    """A cluster without Spark."""
    with LocalCluster(tmp_path / "root", engine="inline") as made:
        yield made


def fresh(tmp_path, count, *new):
    """What a module shows that has had them from its first deployment."""
    with LocalCluster(tmp_path / "fresh", engine="inline") as other:
        app = other.deploy(build(*new))
        app.wait(app.depot("sales").append(sales(0, count)))
        return found(app, "by_shop", *new)


def test_it_is_what_a_fresh_module_shows(cluster, tmp_path):
    """Filled while records come, and after they have joined, with all that steps keep."""
    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 900)))
    app = cluster.update(build(*ALL))
    for turn in range(4):
        app.depot("sales").append(sales(900 + turn * 50, 50))
    app.topology("mb").wait_filled()
    app.wait(app.depot("sales").append(sales(1100, 150)))
    wanted = fresh(tmp_path, 1250, *ALL)
    assert found(app, "by_shop", *ALL) == wanted
    with LocalCluster(cluster.root, engine="inline") as again:  # all from the root alone
        app = again.deploy(build(*ALL))
        assert found(app, "by_shop", *ALL) == wanted


def test_until_then_it_is_not_readable_and_says_why(cluster, held):
    """Here, in another process, and as of a microbatch before; the rest goes on."""
    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 300)))
    plan = cluster.plan(build("by_item", "shops"))
    said = {each.part: each.detail for each in plan.changes}
    assert "filled from 300 records of sales" in said["pstate:by_item"]
    assert said["hidden:mb-distinct-shops"].startswith("filled with it: ")
    app = cluster.update(build("by_item", "shops"))
    readers = (app, connect(cluster.root, "shop"))
    for reader in readers:
        with pytest.raises(FillingError, match="'by_item' is being filled"):
            reader.pstate("by_item").get(1)
        with pytest.raises(FillingError):
            reader.subscribe("by_item")
    app.wait(app.depot("sales").append(sales(300, 50)))
    before = app.topology("mb").status()["committed"]
    filling = app.topology("mb").status()["filling"]
    assert filling["pstates"] == ["by_item", "shops"]
    assert (filling["state"], filling["error"]) == ("running", None)
    with pytest.raises(UsageError, match="cannot go back while by_item, shops is being filled"):
        app.topology("mb").rollback(before)
    held()
    app.topology("mb").wait_filled()
    assert app.topology("mb").status()["filling"] is None
    shown = [reader.pstate("by_item").select(path.all()) for reader in readers]
    assert shown[0] == shown[1] != []
    with pytest.raises(UsageError, match="has no state as of microbatch"):
        app.pstate("by_item").as_of(before).get(1)
    assert app.pstate("by_shop").as_of(before).get(1) is not None
    with pytest.raises(UsageError, match="was filled and joined with microbatch"):
        app.topology("mb").rollback(before)
    joined = app.topology("mb").status()["committed"]
    app.wait(app.depot("sales").append(sales(350, 50)))
    app.topology("mb").rollback(joined)
    assert app.pstate("by_item").select(path.all()) == shown[0]


def test_it_goes_on_in_the_next_life(tmp_path, held):
    """Where its last commit ended; what is deployed while it goes on is the same, or refused."""
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(build())
        app.wait(app.depot("sales").append(sales(0, 300)))
        app = cluster.update(build("by_item"))
        app.pause()
        done = app.topology("mb").status()["filling"]["records"]
    with LocalCluster(tmp_path / "root", engine="inline") as cluster:
        app = cluster.deploy(build("by_item"))
        status = app.topology("mb").status()
        assert (status["state"], status["filling"]["state"]) == ("paused", "paused")
        assert status["filling"]["records"] == done
        app.resume()
        kept = [each for each in cluster.plan(build("by_item")).changes if each.effect == "kept"]
        assert "is being filled" in kept[0].detail
        (refused,) = cluster.plan(build("by_item", "shops")).refused
        assert refused.detail == "cannot be filled while by_item is"
        cluster.set_units(5)  # it moves with its topology
        held()
        app.topology("mb").wait_filled()
        assert len(app.cluster.info().roots("mb")[0].units) == 5
        assert found(app, "by_shop", "by_item") == fresh(tmp_path, 300, "by_item")
        app = cluster.update(build("by_item", "shops"))
        app.topology("mb").wait_filled()
        assert found(app, "by_item", "shops").keys() == {"by_item", "shops"}


def test_it_can_be_cancelled_and_begun_again(cluster, tmp_path, held):
    """As any PState is removed; its name is free, since it never was part of the topology."""
    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 300)))
    cluster.update(build("by_item", "shops"))
    with pytest.raises(DeployError, match="is filled together with shops"):
        cluster.update(build("shops"), remove=["pstate:by_item"])
    with pytest.raises(DeployError, match="no longer declared"):
        cluster.update(build())
    app = cluster.update(build(), remove=["pstate:by_item", "pstate:shops"])
    assert app.topology("mb").status()["filling"] is None
    assert not list((cluster.root / "shop").glob("_fill*"))
    held()
    app = cluster.update(build("by_item"))
    app.topology("mb").wait_filled()
    assert found(app, "by_item") == {"by_item": fresh(tmp_path, 300, "by_item")["by_item"]}


def test_what_keeps_failing_is_said_and_stops_nothing(cluster):
    """A record of the past that the new step cannot take: the topology goes on without it."""

    def checked(row, new):
        if row.item == 12:
            raise ValueError("not twelve")
        new[row.item] = 1

    module = build(options={**SMALL, "topology.microbatch.retry.max.attempts": 1})
    app = cluster.deploy(module)
    app.wait(app.depot("sales").append(sales(0, 300)))
    module = build(options={**SMALL, "topology.microbatch.retry.max.attempts": 1})
    mb = module.topologies["mb"]
    new = mb.pstate("new", dict[int, int], backfill=True)
    mb.source(module.depots["sales"], start_from=start.beginning()).process(
        checked, key="item", states=[new]
    )
    app = cluster.update(module)
    with pytest.raises(TopologyFailedError, match="what fills new failed"):
        app.topology("mb").wait_filled()
    filling = app.topology("mb").status()["filling"]
    assert (filling["state"], filling["error"]["code"]) == ("failed", "E-USER-CODE")
    app.wait(app.depot("sales").append(sales(300, 50)))
    assert app.topology("mb").status()["state"] == "running"


def test_what_cannot_be_filled_is_refused_by_name(cluster):
    """Before anything changes."""
    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 50)))
    module = build()
    mb = module.topologies["mb"]
    mb.pstate("idle", dict[int, int], backfill=True)
    assert "no step writes it" in cluster.plan(module).refused[0].detail


def test_a_past_that_is_gone_is_refused(cluster, monkeypatch):
    """Retention has deleted records that the topology had read."""
    from atoll.depot.segments.chain import SegmentChain

    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 50)))
    monkeypatch.setattr(SegmentChain, "start_offsets", lambda self: [3] * self.partitions)
    (refused, *_) = cluster.plan(build("by_item")).refused
    assert "depot partition sales/0 begins at offset 3" in refused.detail
    assert refused.hint == "declare it without backfill=: it begins empty then"


def test_a_disk_that_refuses_the_join_is_tried_again(cluster, tmp_path, monkeypatch):
    """What was filled goes on being filled, the topology goes on, and the next try joins."""
    linked, tried = Filling._linked, []

    def refusing(self, ref, commit_id):
        tried.append(ref)
        if len(tried) == 2:
            raise StorageError("no space")
        return linked(self, ref, commit_id)

    monkeypatch.setattr(Filling, "_linked", refusing)
    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 300)))
    app = cluster.update(build("by_item"))
    app.topology("mb").wait_filled()
    assert len(tried) > 2
    assert found(app, "by_item") == {"by_item": fresh(tmp_path, 300, "by_item")["by_item"]}


def test_a_topology_that_has_read_nothing_has_nothing_to_fill(cluster):
    """The PState is there at once; so it is in a first deployment, and in a new topology."""
    cluster.deploy(build())
    app = cluster.update(build("by_item"))
    assert app.topology("mb").status()["filling"] is None
    assert app.pstate("by_item").select(path.all()) == []


def test_by_hand():
    """A driver fills whenever the topology is idle; windows that are open stay so."""

    def shown(driver):
        driver.run_until_idle()
        return [driver.pstate(name).select(path.all()) for name in ("minutes", "shops")]

    with TopologyTestDriver(build()) as driver:
        driver.depot("sales").append(sales(0, 700))
        driver.run_until_idle()
        driver.update(build("minutes", "shops"))
        driver.depot("sales").append(sales(700, 20))
        first = shown(driver)
        driver.depot("sales").append(sales(720, 300))
        second = shown(driver)
    with TopologyTestDriver(build("minutes", "shops")) as driver:
        driver.depot("sales").append(sales(0, 720))
        assert first == shown(driver)
        driver.depot("sales").append(sales(720, 300))
        assert second == shown(driver)
    assert first[0] not in ([], second[0])


def test_status_is_json(cluster, held):
    """As HTTP gives it."""
    app = cluster.deploy(build())
    app.wait(app.depot("sales").append(sales(0, 50)))
    app = cluster.update(build("by_item"))
    assert json.loads(json.dumps(app.status()))["topologies"]["mb"]["filling"]["pstates"]


@pytest.mark.slow
def test_on_spark(tmp_path):
    """The same with column steps, standing tasks, and both topologies on them."""
    with LocalCluster(tmp_path / "root", parallelism=2) as cluster:
        app = cluster.deploy(build())
        app.wait(app.depot("sales").append(sales(0, 900)))
        app = cluster.update(build(*ALL))
        app.depot("sales").append(sales(900, 50))
        app.topology("mb").wait_filled(120)
        app.wait(app.depot("sales").append(sales(950, 50)))
        assert found(app, "by_shop", *ALL) == fresh(tmp_path, 1000, *ALL)
