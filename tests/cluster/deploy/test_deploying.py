"""A deployment that is refused, that fails, and that leaves nothing running: what is said and done.

That it holds wherever a deployment fails is for ``tests/faults/test_deployments.py``.
"""

from __future__ import annotations

import time

import msgspec
import pytest

import atoll
from atoll import LocalCluster, Map, agg, start
from atoll.cluster.deploy import lives
from atoll.depot.depot import Depot
from atoll.errors import (
    DeployError,
    FencedError,
    NotFoundError,
    RescheduleError,
    StoppedError,
    TopologyFailedError,
)
from atoll.microbatch import epochs
from atoll.microbatch.epochs import claim_epoch
from atoll.storage.local import LocalStore
from atoll.storage.numbered import NumberedObjects
from atoll.testing import TopologyTestDriver

NAME = "shop"


def shop(more=False, parallelism="adaptive"):
    """Sums by key; with a second topology, which needs units of its own."""
    module = atoll.Module(NAME)
    rows = module.depot("rows", "k string, v long", partition_by="k")
    for name in ("mb", "more") if more else ("mb",):
        mb = module.microbatch(name, vnode_count=4, parallelism=parallelism)
        mb.source(rows, start_from=start.beginning()).aggregate(
            mb.pstate(f"sums-{name}", Map(str, int))["k"], agg.sum("v")
        )
    return module


@pytest.fixture
def cluster(tmp_path):
    """Runs nothing yet."""
    with LocalCluster(tmp_path, engine="inline") as made:
        yield made


def append(app, count):
    """One record of 1, then wait until so many are processed."""
    app.depot("rows").append([{"k": "a", "v": 1}])
    app.topology("mb").wait_processed(count)
    assert app.pstate("sums-mb").get("a") == count


def full(*_args, **_kwargs):
    """A disk without space."""
    raise OSError(28, "No space left on device")


def nothing_runs(cluster, monkeypatch):
    """Let a deployment fail, and the version before fail to start again."""
    with monkeypatch.context() as patched:
        patched.setattr(lives, "claim_epoch", full)
        with pytest.raises(DeployError, match="does not run"):
            cluster.update(shop(more=True))
    return cluster.stopped[NAME]


def test_without_a_unit_it_is_refused_and_the_running_version_goes_on(cluster):
    """The dry run says so; nothing has changed, and after uncordoning it is deployed."""
    app = cluster.deploy(shop())
    append(app, 1)
    app.cluster.cordon([0])
    revision = app.cluster.info().revision
    plan = cluster.plan(shop(more=True))
    assert [(each.effect, each.part) for each in plan.refused] == [("refused", "topology:more")]
    assert "finds no parallel unit" in plan.refused[0].detail
    with pytest.raises(DeployError, match="finds no parallel unit") as caught:
        cluster.update(shop(more=True))
    assert "uncordon" in caught.value.hint
    assert caught.value.hint not in caught.value.message, "it says twice what to do"
    assert str(plan).count(caught.value.hint) == 1
    assert plan.to_json()["changes"][-1]["hint"] == caught.value.hint
    assert cluster.apps[NAME] is app
    append(app, 2)
    assert not cluster.plan(shop()).refused  # what runs already needs no unit
    assert app.cluster.info().revision == revision
    app.cluster.uncordon([0])
    append(cluster.update(shop(more=True)), 3)


def test_workers_of_a_module_that_does_not_run_can_be_uncordoned(tmp_path):
    """Else a version that finds no unit could never be started."""
    with LocalCluster(tmp_path, engine="inline") as first:
        first.deploy(shop()).cluster.cordon([0])
    with LocalCluster(tmp_path, engine="inline") as cluster:
        with pytest.raises(NotFoundError, match="was ever deployed"):
            cluster.workers("other")
        with pytest.raises(DeployError, match="finds no parallel unit"):
            cluster.deploy(shop(more=True))
        assert [each.state for each in cluster.workers(NAME).info().workers] == ["cordoned"]
        cluster.workers(NAME).uncordon([0])
        app = cluster.deploy(shop(more=True))
        assert cluster.workers(NAME) is app.cluster
        append(app, 1)


def test_a_depot_that_cannot_be_opened_is_in_the_plan(cluster, tmp_path):
    """A damaged segment is found before the running version stops."""
    app = cluster.deploy(shop())
    append(app, 1)
    segment = next((tmp_path / NAME / "depots" / "rows" / "segments").glob("*.seg"))
    data = segment.read_bytes()
    segment.write_bytes(b"\xff" * 16 + data[16:])
    plan = cluster.plan(shop(more=True))
    assert [each.part for each in plan.refused] == ["depot:rows"]
    assert segment.name in plan.refused[0].detail
    with pytest.raises(DeployError):
        cluster.update(shop(more=True))
    segment.write_bytes(data)
    assert cluster.apps[NAME] is app
    append(app, 2)


def test_a_version_that_cannot_be_started_is_told_with_what_runs(cluster, monkeypatch):
    """The one before, as another app; the old one says that it has stopped."""
    app = cluster.deploy(shop())
    append(app, 1)
    changes = []
    cluster.on_change(changes.append)
    with monkeypatch.context() as patched:
        patched.setattr(lives, "save_deployment", full)
        with pytest.raises(DeployError) as caught:
            cluster.update(shop(more=True))
    assert caught.value.message == (
        f"the new version of module '{NAME}' could not be started: the disk refused: No space left "
        "on device; the version before runs again"
    )
    assert caught.value.context["because"] == "E-STORAGE"
    assert isinstance(caught.value.__cause__, OSError)
    again = cluster.apps[NAME]
    assert changes == [again]
    assert (app.status()["state"], again.status()["state"]) == ("stopped", "running")
    assert app.topology("mb").status()["state"] == "stopped"
    append(again, 2)
    append(cluster.update(shop(more=True)), 3)


def test_a_version_that_runs_in_another_process_is_fenced_before_the_new_one_fails(
    cluster, tmp_path, monkeypatch
):
    """Then neither runs; the root says what it said, and the one before starts on it again."""
    app = cluster.deploy(shop())
    append(app, 1)
    with LocalCluster(tmp_path, engine="inline") as other:
        with monkeypatch.context() as patched:
            patched.setattr(lives, "save_deployment", full)
            with pytest.raises(OSError, match="No space left"):
                other.deploy(shop(more=True))
        assert other.apps == {}
        with pytest.raises(FencedError):
            app.topology("mb").wait_processed(2)
        again = other.deploy(shop())
        assert again.topologies() == ["mb"]
        append(again, 2)


def test_a_refusal_leaves_a_version_in_another_process_running(cluster, tmp_path):
    """Nothing is claimed before all is checked."""
    app = cluster.deploy(shop())
    changed = atoll.Module(NAME)
    changed.depot("rows", "k string")
    with LocalCluster(tmp_path, engine="inline") as other:
        with pytest.raises(DeployError):
            other.deploy(changed)
        append(app, 1)


def test_a_version_whose_topology_fails_is_not_taken_back(cluster):
    """It was deployed; its state is that of the last commit, for a mended version to go on from."""

    def broken(row, sums):
        raise ValueError("not yet")

    append(cluster.deploy(shop()), 1)
    module = atoll.Module(NAME)
    rows = module.depot("rows", "k string, v long", partition_by="k")
    once = {"topology.microbatch.retry.max.attempts": 1}
    mb = module.microbatch("mb", vnode_count=4, options=once)
    sums = mb.pstate("sums-mb", Map(str, int))
    mb.source(rows).process(broken, key="k", states=[sums])
    app = cluster.update(module)
    app.depot("rows").append([{"k": "a", "v": 1}])
    with pytest.raises(TopologyFailedError, match="not yet"):
        app.topology("mb").wait_processed(2)
    assert cluster.apps[NAME] is app
    assert app.pstate("sums-mb").get("a") == 1
    mended = cluster.update(shop())
    mended.topology("mb").wait_processed(2)
    assert mended.pstate("sums-mb").get("a") == 2


def test_between_two_versions_reads_are_answered_and_appends_are_refused_with_what_to_do(
    cluster, monkeypatch
):
    """Nothing of them is stored; what was taken of the app before follows the one in its place."""
    old = cluster.deploy(shop())
    append(old, 1)
    before = old.pstate("sums-mb")
    seen = []

    def between(*arguments):
        with pytest.raises(StoppedError, match="another version takes its place") as caught:
            cluster.module(NAME).depot("rows").append([{"k": "a", "v": 100}])
        seen.append((caught.value.hint.partition(":")[0], cluster.module(NAME).status()["state"]))
        seen.append(cluster.module(NAME).pstate("sums-mb").get("a"))
        return claim_epoch(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(lives, "claim_epoch", between)
        app = cluster.update(shop())
    assert seen == [("append again", "stopped"), 1]
    append(app, 2)
    assert before.get("a") == app.pstate("sums-mb").get("a") == 2
    assert sum(app.depot("rows").end_offsets()) == 2


def test_what_was_taken_of_a_version_that_is_gone_says_so_where_it_cannot_follow(cluster):
    """It never shows the last commit of before as if it were that of now."""
    old = cluster.deploy(shop(more=True))
    append(old, 1)
    old.wait_idle()
    gone, stays = old.pstate("sums-more"), old.pstate("sums-mb")
    with pytest.raises(DeployError):
        cluster.update(shop())
    assert gone.get("a") == 1
    cluster.update(shop(), remove=["topology:more"])
    with pytest.raises(StoppedError, match="has no such PState"):
        gone.get("a")
    append(cluster.update(shop()), 2)  # the second one in its place
    assert stays.get("a") == 2


def test_options_set_while_it_runs_hold_for_the_version_that_comes_back(cluster, monkeypatch):
    """It is bound long before."""
    app = cluster.deploy(shop())
    app.options.set("depot.microbatch.max.records", 7)
    with monkeypatch.context() as patched:
        patched.setattr(lives, "save_deployment", full)
        with pytest.raises(DeployError):
            cluster.update(shop(more=True))
    loop = cluster.apps[NAME]._loops["mb"]
    assert loop.status.state.options.microbatch_records_max == 7


def test_nothing_runs_and_says_so(cluster, monkeypatch):
    """Status, everything that is asked, and the workers, until it is deployed again."""
    append(cluster.deploy(shop()), 1)
    monkeypatch.setattr(cluster._deploying.reviver, "begin", lambda: None)
    stopped = nothing_runs(cluster, monkeypatch)
    assert cluster.module(NAME) is stopped
    assert NAME not in cluster.apps
    status = stopped.status()
    assert status["state"] == "stopped"
    assert "No space left" in status["error"]["message"]
    assert "deploy again" in status["error"]["hint"]
    assert stopped.topologies() == ["mb"]
    assert stopped.pstates() == ["sums-mb"]
    assert stopped.depots() == ["rows"]
    for ask in (
        lambda: stopped.depot("rows"),
        lambda: stopped.pstate("sums-mb"),
        lambda: stopped.topology("mb"),
        lambda: stopped.subscribe("sums-mb"),
        lambda: stopped.queries,
        lambda: stopped.options,
    ):
        with pytest.raises(StoppedError, match="No space left"):
            ask()
    assert stopped.cluster.describe()["workers"][0]["state"] == "running"
    stopped.cluster.cordon([0])
    stopped.cluster.uncordon([0])
    assert stopped.cluster.set_parallelism("mb", "9").shortage.missing == 7
    with pytest.raises(RescheduleError, match="revision"):
        stopped.cluster.reschedule({}, revision=0)
    with pytest.raises(RescheduleError, match="actors"):
        stopped.cluster.remove([0])
    app = cluster.update(shop(more=True))
    assert not cluster.stopped
    assert app.cluster.info().policies["mb"] == "fixed(9)"
    append(app, 2)
    assert stopped.cluster.cordon([0]).workers[0].cordoned  # it asks the one that runs by now
    assert app.cluster.info().workers[0].cordoned


def test_it_runs_again_by_itself(cluster, monkeypatch):
    """As soon as the cause is gone; listeners hear of the stop and of the start."""
    append(cluster.deploy(shop()), 1)
    changes = []
    cluster.on_change(changes.append)
    stopped = nothing_runs(cluster, monkeypatch)
    until = time.monotonic() + 120
    while NAME not in cluster.apps:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert changes == [stopped, cluster.apps[NAME]]
    append(cluster.apps[NAME], 2)


def test_a_test_driver_starts_nothing_by_itself(monkeypatch):
    """There are no threads; it is deployed again."""
    with TopologyTestDriver(shop()) as driver:
        driver.depot("rows").append([{"k": "a", "v": 1}])
        driver.run_until_idle()
        with monkeypatch.context() as patched:
            patched.setattr(lives, "save_deployment", full)
            with pytest.raises(DeployError, match="runs again"):
                driver.update(shop(more=True))
        driver.depot("rows").append([{"k": "a", "v": 1}])
        driver.run_until_idle()
        assert driver.pstate("sums-mb").get("a") == 2
        nothing_runs(driver.cluster, monkeypatch)
        assert driver.cluster._deploying.reviver._thread is None
        driver.update(shop(more=True))
        driver.run_until_idle()
        assert driver.pstate("sums-more").get("a") == 2


def test_a_module_that_was_taken_over_meanwhile_is_left_where_it_runs(cluster, monkeypatch):
    """To start the version before again would fence the process that has it now."""
    append(cluster.deploy(shop()), 1)
    opened = Depot.__init__

    def taken(self, folder, spec, epoch=0, *more, **named):
        claim_epoch(LocalStore(cluster.root), NAME)
        opened(self, folder, spec, epoch, *more, **named)

    fenced = []
    cluster.on_change(lambda module: module.on_fenced(fenced.append))
    with monkeypatch.context() as patched:
        patched.setattr(Depot, "__init__", taken)
        with pytest.raises(FencedError):
            cluster.update(shop(more=True))
    assert len(fenced) == 1
    assert isinstance(cluster.stopped[NAME].failure, FencedError)
    assert not cluster._deploying._revive()
    assert NAME not in cluster.apps


def test_a_module_that_another_process_has_taken_over_is_not_started_again(cluster, monkeypatch):
    """Neither by the next try nor by who deploys here and does not know yet."""
    append(cluster.deploy(shop()), 1)
    monkeypatch.setattr(cluster._deploying.reviver, "begin", lambda: None)
    stopped = nothing_runs(cluster, monkeypatch)
    elsewhere = epochs.Life("another-host", 7, 0)
    lives_of = NumberedObjects(LocalStore(cluster.root), f"{NAME}/epochs")
    lives_of.create(lives_of.latest() + 1, msgspec.msgpack.encode(elsewhere))
    with pytest.raises(FencedError, match="process 7 on another-host"):
        cluster.deploy(shop(more=True))
    assert not cluster._deploying._revive()
    assert cluster.stopped[NAME].failure.context["fenced_by"] == "process 7 on another-host"
    assert NAME not in cluster.apps
    app = cluster.deploy(shop())  # now it is known, and meant
    assert app.epoch.number > stopped.last.epoch + 1
    append(app, 2)


def test_what_changes_nothing_of_workers_takes_a_module_from_nobody(tmp_path):
    """A dry run, what is so already, and what is refused, of a module that runs elsewhere."""
    with LocalCluster(tmp_path, engine="inline") as first:
        app = first.deploy(shop())
        workers = LocalCluster(tmp_path, engine="inline").workers(NAME)
        plan = workers.set_parallelism("mb", "1", dry_run=True)
        assert plan.info.policies["mb"] == "fixed(1)"
        workers.uncordon([0])
        with pytest.raises(NotFoundError):
            workers.cordon([7])
        with pytest.raises(RescheduleError):
            workers.remove([0])
        app.epoch.check()
        app.cluster.cordon([0])
        append(app, 1)
        assert workers.set_parallelism("mb", "1").info.workers[0].cordoned, "what the root says"
        with pytest.raises(FencedError):
            app.epoch.check()


def test_the_workers_of_a_module_that_was_taken_over_are_left_to_who_has_it(cluster, monkeypatch):
    """What is known here is of before, and a change would fence the process that runs it."""
    append(cluster.deploy(shop()), 1)
    monkeypatch.setattr(cluster._deploying.reviver, "begin", lambda: None)
    stopped = nothing_runs(cluster, monkeypatch)
    stopped.cluster.cordon([0])
    stopped.cluster.uncordon([0])
    elsewhere = epochs.Life("another-host", 7, 0)
    lives_of = NumberedObjects(LocalStore(cluster.root), f"{NAME}/epochs")
    number = lives_of.latest() + 1
    lives_of.create(number, msgspec.msgpack.encode(elsewhere))
    with pytest.raises(FencedError, match="process 7 on another-host"):
        stopped.cluster.cordon([0])
    with pytest.raises(FencedError, match="process 7 on another-host"):
        stopped.cluster.set_parallelism("mb", "1", dry_run=True)
    assert lives_of.latest() == number


def test_a_module_that_was_taken_over_is_not_deployed_over_unknowingly():
    """It is refused before anything stops, and the other life is not disturbed."""
    with TopologyTestDriver(shop()) as driver:
        epoch = claim_epoch(LocalStore(driver.cluster.root), NAME)
        with pytest.raises(FencedError):
            driver.update(shop(more=True))
        epoch.check()


def test_a_first_deployment_that_fails_leaves_nothing_open(cluster, monkeypatch):
    """There is no version before; the next try succeeds."""
    with monkeypatch.context() as patched:
        patched.setattr(lives, "save_deployment", full)
        with pytest.raises(OSError, match="No space left"):
            cluster.deploy(shop())
    assert not cluster.apps
    assert not cluster.stopped
    append(cluster.deploy(shop()), 1)
