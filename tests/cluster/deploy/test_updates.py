"""A new version over a running one: the plan of what changes, removal by name, going on."""

from __future__ import annotations

import shutil

import pytest

import atoll
from atoll import Map, agg, start
from atoll.cluster.local import LocalCluster
from atoll.errors import DeclarationError, DeployError, NotFoundError, UsageError
from atoll.fsck.root import check_root
from atoll.names import RESERVED
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects
from atoll.testing import TopologyTestDriver

FIRST = start.beginning()


def shop(*, add=1, value=int, migrated=None, private=False, parts="orders,log,side", more=()):
    """Sums ``v + add``; a log that it appends to, and a second topology with state of its own."""
    module = atoll.Module("shop")
    orders = module.depot("orders", "k string, v long", partition_by="k", partitions=2)
    mb = module.microbatch("mb", vnode_count=4)
    sums = mb.pstate("sums", Map(str, value), private=private)
    if migrated:
        sums.migrated(migrated, str)
    rows = mb.source(orders, start_from=FIRST)
    rows.map(lambda row: {"k": row.k, "v": row.v + add}, emits="k string, v long").aggregate(
        sums["k"], agg.sum("v") if value is int else agg.last("cast(v as string)")
    ) if value is int else rows.process(keep, key="k", states=[sums])
    if "log" in parts:
        rows.append_to(module.depot("log", "k string, v long"))
        rows.aggregate(mb.pstate("counts", Map(str, int))["k"], agg.count())
    if "side" in parts:
        side = module.microbatch("side", vnode_count=2)
        side.source(orders, start_from=FIRST).aggregate(
            side.pstate("seen", Map(str, int))["k"], agg.count()
        )
    for name in more:
        module.depot(name, "v long")
    return module


def keep(row, sums):
    """The last value as text."""
    sums[row.k] = str(row.v)


def effects(plan):
    """What the plan says, without the details."""
    return [(each.effect, each.part) for each in plan.changes]


def test_a_new_version_goes_on_with_new_steps_and_the_same_count():
    """Rama's case: the first version adds 2, the second 1."""
    with TopologyTestDriver(shop(add=2)) as driver:
        driver.depot("orders").append([{"k": "a", "v": 0}])
        driver.run_until_idle()
        assert driver.pstate("sums").get("a") == 2
        driver.update(shop(add=1))
        driver.depot("orders").append([{"k": "a", "v": 0}])
        driver.run_until_idle()
        assert driver.pstate("sums").get("a") == 3
        assert driver.status("mb")["processed"] == 2


def test_a_plan_lists_everything_and_changes_nothing(tmp_path):
    """Added, removed, migrated, changed and refused, all at once; then nothing has happened."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        first = cluster.plan(shop())
        assert first.first
        assert {each.effect for each in first.changes} == {"added"}
        app = cluster.deploy(shop())
        before = sorted(tmp_path.rglob("*"))
        assert effects(cluster.plan(shop(add=7))) == []
        assert str(cluster.plan(shop(add=7))) == "nothing changes but steps and functions"
        new = shop(value=str, migrated="text", private=True, parts="orders", more=["extra"])
        plan = cluster.plan(new, remove=["depot:log", "topology:side"])
        assert effects(plan) == [
            ("added", "depot:extra"),
            ("removed", "depot:log"),
            ("removed", "topology:side"),
            ("removed", "pstate:seen"),
            ("migrated", "pstate:sums"),
            ("changed", "pstate:sums"),
            ("refused", "pstate:counts"),
        ]
        assert "refused  pstate:counts  (no longer declared; declare it again; to delete" in str(
            plan
        )
        assert plan.to_json()["changes"][0] == {
            "effect": "added", "part": "depot:extra", "detail": "",
        }  # fmt: skip
        with pytest.raises(DeployError, match=r"pstate 'counts': no longer declared"):
            cluster.update(new, remove=["depot:log", "topology:side"])
        assert sorted(tmp_path.rglob("*")) == before
        app.depot("orders").append([{"k": "a", "v": 1}])
        app.topology("mb").wait_processed(1)


def test_what_is_named_is_removed_with_its_data_and_its_name_stays_taken(tmp_path):
    """The rest goes on; a removed name cannot come back, here or after a restart."""
    with TopologyTestDriver(shop(), root=tmp_path) as driver:
        driver.depot("orders").append([{"k": "a", "v": 1}] * 3)
        driver.run_until_idle()
        new = shop(parts="orders")
        removed = ["depot:log", "pstate:counts", "topology:side"]
        driver.update(new, remove=removed)
        driver.update(new)  # nothing is left to name
        for gone in ("log", "counts", "seen"):
            with pytest.raises(NotFoundError):
                (driver.depot if gone == "log" else driver.pstate)(gone)
        assert not (tmp_path / "shop" / "depots" / "log").exists()
        assert not (tmp_path / "shop" / "side").exists()
        driver.depot("orders").append([{"k": "a", "v": 1}])
        driver.run_until_idle()
        assert driver.pstate("sums").get("a") == 8
        driver.app.options.set("pstate.history.seconds", 0)
        for _ in range(120):
            driver.depot("orders").append([{"k": "b", "v": 1}])
            driver.run_until_idle()
        assert not list((tmp_path / "shop" / "mb" / "logs").glob("counts/*"))
        with pytest.raises(DeployError, match="a removed one had this name"):
            driver.update(shop())
    assert check_root(tmp_path, stores=True).findings == []


@pytest.mark.parametrize(
    ("remove", "problem"),
    [
        (["pstate:nothing"], "there is no 'pstate:nothing' to remove"),
        (["sums"], "there is no 'sums' to remove"),
        (["pstate:sums"], "the new version declares it"),
    ],
)
def test_what_cannot_be_removed(tmp_path, remove, problem):
    """A mistyped name is an error, not a removal that never happens."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        cluster.deploy(shop())
        with pytest.raises(UsageError, match=problem):
            cluster.update(shop(), remove=remove)


def test_a_topology_that_reads_a_depot_again_begins_as_it_says(tmp_path):
    """What it read before it was told to stop is not counted twice with ``start.end()``.

    One that is told at once to read it after all goes on where it was.
    """

    def reading(*names):
        module = atoll.Module("sources")
        depots = {name: module.depot(name, "v long") for name in ("a", "b")}
        mb = module.microbatch("mb", vnode_count=1)
        total = mb.pstate("total", int, initial=0)
        for name in names:
            mb.source(depots[name]).aggregate(total, agg.sum("v"))
        return module

    with TopologyTestDriver(reading("a", "b"), root=tmp_path) as driver:
        driver.depot("b").append([{"v": 0}])
        driver.run_until_idle()
        driver.update(reading("a"))
        driver.depot("b").append([{"v": 1}])
        driver.update(reading("a", "b"))  # before anything was committed without it
        driver.run_until_idle()
        plan = driver.cluster.plan(reading("a"))
        assert [each.detail for each in plan.changes] == ["no longer reads b"]
        driver.update(reading("a"))
        driver.depot("a").append([{"v": 10}])
        driver.depot("b").append([{"v": 1000}])
        driver.run_until_idle()
        driver.update(reading("a", "b"))
        driver.depot("b").append([{"v": 100}])
        driver.run_until_idle()
        assert driver.pstate("total").get() == 111


@pytest.mark.parametrize("name", [*sorted(RESERVED["topology"]), "Cluster"])
def test_a_topology_cannot_have_the_name_of_a_folder_of_atolls(name):
    """Also not in another case, which is the same folder on some systems."""
    with pytest.raises(DeclarationError, match="a folder of Atoll's own has that name"):
        atoll.Module("m").microbatch(name)
    atoll.Module(name).depot(name, "v long")


def test_every_folder_beside_the_topologies_is_reserved(tmp_path):
    """A module with everything that makes one; what is new in its folder must be in the list."""
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(shop())
        app.depot("orders").append([{"k": "a", "v": 1}])
        app.topology("mb").wait_processed(1)
        app.options.set("depot.microbatch.max.records", 10)
        cluster.update(shop(parts="orders"), remove=["depot:log", "topology:side", "pstate:counts"])
    of_before = {"cluster"}  # where earlier releases kept what now is the root's
    found = {path.name for path in (tmp_path / "shop").iterdir()} - {"mb"}
    assert found == RESERVED["topology"] - of_before
    assert {path.name for path in tmp_path.iterdir()} - {"shop"} <= RESERVED["module"]


def test_a_topology_named_as_a_folder_is_removed_without_it(tmp_path, monkeypatch):
    """A root from before the name was reserved: the hint works, and revisions of then stay."""

    def named(name):
        module = atoll.Module("m")
        rows = module.depot("d", "v long")
        mb = module.microbatch(name, vnode_count=1)
        mb.source(rows, start_from=FIRST).aggregate(mb.pstate(f"{name}_n", int), agg.count())
        return module

    with monkeypatch.context() as before, LocalCluster(tmp_path, engine="inline") as cluster:
        before.setitem(RESERVED, "topology", RESERVED["topology"] - {"cluster"})
        app = cluster.deploy(named("cluster"))
        app.depot("d").append([{"v": 1}])
        app.topology("cluster").wait_processed(1)
    with pytest.raises(DeclarationError) as refused:
        named("cluster")
    assert "with remove=['topology:cluster']" in refused.value.hint
    NumberedObjects(LocalStore(tmp_path), "m/cluster").create(1, b"")  # it is not read any more
    with LocalCluster(tmp_path, engine="inline") as cluster:
        app = cluster.deploy(named("mb"), remove=["topology:cluster"])
        app.topology("mb").wait_processed(1)
        assert app.pstate("mb_n").get() == 1
    assert [path.is_file() for path in (tmp_path / "m" / "cluster").iterdir()] == [True]
    assert check_root(tmp_path, stores=True).findings == []


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_pstate_that_no_step_writes_any_more_holds_nothing_back(tmp_path, parallelism):
    """It can be read and migrated, is part of checkpoints, and old logs go as ever."""

    def keeping(*, writes, value=int):
        module = atoll.Module("keeping")
        rows = module.depot("rows", "k string, v long", partition_by="k")
        options = {"pstate.checkpoint.interval.commits": 5, "pstate.history.seconds": 0}
        mb = module.microbatch("mb", vnode_count=4, options=options)
        sums = mb.pstate("sums", Map(str, int))
        kept = mb.pstate("kept", Map(str, value))
        if value is float:
            kept.migrated("wider", float)
        source = mb.source(rows, start_from=FIRST)
        source.aggregate(sums["k"], agg.sum("v"))
        if writes:
            source.process(last, key="k", states=[kept])
        return module

    def last(row, kept):
        kept[row.k] = row.v

    versions = [keeping(writes=True), keeping(writes=False), keeping(writes=False, value=float)]
    state = {f"k{n}": n for n in range(9)}
    engine = {"root": tmp_path, "parallelism": parallelism, "engine": "inline"}
    with TopologyTestDriver(versions[0], **engine) as driver:
        driver.depot("rows").append([{"k": k, "v": v} for k, v in state.items()])
        driver.run_until_idle()
        for version in versions[1:]:
            driver.update(version)
            driver.run_until_idle()
            begun = driver.status()["committed"]
            for _ in range(12):
                driver.depot("rows").append([{"k": "k1", "v": 0}])
                driver.run_until_idle()
            loop = driver.app._loops["mb"]
            assert loop.published.floor > begun
            driver.topology("mb").checkpoint()
            assert not loop.status.state.checkpoints.stale(loop.published)
            assert driver.pstate("kept").get() == state
    shutil.rmtree(tmp_path / "local")
    assert check_root(tmp_path).is_sound
    with TopologyTestDriver(versions[2], **engine) as driver:
        assert driver.pstate("kept").get() == {k: float(v) for k, v in state.items()}
