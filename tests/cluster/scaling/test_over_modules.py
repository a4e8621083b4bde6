"""One cluster for all modules of a root, whichever processes run them.

On the inline engine; the second process is :mod:`scaling_child`, which runs module ``two``.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from pathlib import Path

import cluster_per_module as old
import pytest

from atoll.cluster.local import LocalCluster
from atoll.cluster.scaling import taking_part
from atoll.cluster.scaling.revisions import Revision, Revisions
from atoll.errors import DeclarationError, RescheduleError, WaitTimeoutError
from atoll.fsck.root import check_root
from atoll.placement.registry import cordon, whole
from atoll.placement.reschedule.across import policy_across
from atoll.placement.reschedule.change import UnitChange
from atoll.storage.local import LocalStore

SECONDS = 60

WORKS = """
import signal, sys

def end(*_):
    print("asked to end", flush=True)
    sys.exit(7)

signal.signal(signal.SIGTERM, end)
print("works", flush=True)
signal.pause()
"""


class Process:
    """Another process on the root, told what to do line by line."""

    def __init__(self, root):
        child = Path(__file__).parents[1] / "scaling_child.py"
        self.process = subprocess.Popen(
            [sys.executable, str(child), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.said() == "runs"

    def said(self):
        """Its next line."""
        return self.process.stdout.readline().strip()

    def ask(self, line):
        """What it answers."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.said()

    def kill(self):
        """As the kernel does it."""
        self.process.kill()
        self.process.wait(SECONDS)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def cluster(tmp_path):
    """Module ``one`` on two units here."""
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=3) as started:
        started.deploy(old.module("one"))
        yield started


@pytest.fixture
def other(cluster):
    """Module ``two`` in a process of its own."""
    process = Process(cluster.root)
    yield process
    process.kill()


def _where(cluster):
    """The one matrix: the vnodes of each unit, by module and name of the fragment."""
    described = cluster.whole.describe()
    return {
        (each["module"], each["name"]): described["matrix"][str(each["id"])]
        for each in described["fragments"]
    }


def _id(cluster, module, name="aggregate counts"):
    return next(
        each.id
        for each in cluster.whole.info().fragments
        if each.topology == f"{module}/mb" and each.name == name
    )


def _reschedule(cluster, changes, **options):
    revision = cluster.whole.info().revision
    return cluster.whole.reschedule(changes, revision=revision, **options)


def test_two_modules_in_two_processes_on_one_root_have_one_matrix_one_reschedule_and_one_cordon(
    cluster, other
):
    """Ids are unique in the root, and what one process decides holds in the other."""
    info = cluster.whole.info()
    assert len({each.id for each in info.fragments}) == len(info.fragments) == 6
    assert [(each.name, each.units) for each in info.workers] == [("local", (0, 1, 2))]
    assert _where(cluster)["one", "aggregate counts"] == {"0": 3, "1": 3, "2": 2}
    assert _where(cluster)["two", "aggregate counts"] == {"0": 3, "1": 3, "2": 2}
    assert info.policies == {"one/mb": "adaptive", "two/mb": "adaptive"}

    plan = _reschedule(
        cluster,
        {_id(cluster, "one"): UnitChange((), (0,)), _id(cluster, "two"): UnitChange((), (1, 2))},
    )
    assert plan.info.revision == info.revision + 1
    assert _where(cluster)["one", "aggregate counts"] == {"1": 4, "2": 4}
    assert _where(cluster)["two", "aggregate counts"] == {"0": 8}
    assert other.ask("units counts") == "0"  # where its topology itself runs
    old.append(cluster.apps["one"], 0, 30)
    assert other.ask("append 30") == "done"

    cluster.whole.cordon([0])
    assert other.ask("states") == "local:cordoned"
    assert cluster.apps["one"].cluster.info().workers[0].cordoned
    with pytest.raises(RescheduleError, match="cordoned"):
        _reschedule(cluster, {_id(cluster, "two"): UnitChange((1,), (0,))})
    assert other.ask("uncordon 0") == "done"
    assert cluster.whole.info().workers[0].state == "running"
    assert other.ask("check 30") == "done"
    old.check(cluster.apps["one"], 30)


def _placed(cluster, module):
    return cluster.apps[module]._loops["mb"].status.state.placement.mappings["counts"].unit_ids()


def test_when_a_topology_of_another_process_fails_there_all_stay_where_they_were(cluster, other):
    """The request is atomic over processes: the module that could go comes back."""
    assert other.ask("fail") == "done"
    before = _where(cluster)
    changes = {_id(cluster, "one"): UnitChange((), (0,)), _id(cluster, "two"): UnitChange((), (1,))}
    with pytest.raises(RescheduleError, match="'two/mb' stays where it was: it cannot"):
        _reschedule(cluster, changes)
    assert _where(cluster) == before
    assert _placed(cluster, "one") == (0, 1, 2)
    old.append(cluster.apps["one"], 0, 30)
    old.check(cluster.apps["one"], 30)


def test_a_process_that_dies_while_it_tries_holds_nobody_up(cluster, other):
    """It is told that it does not answer; once it is seen to be dead its module rests."""
    assert other.ask("hang") == "done"
    changes = {_id(cluster, "one"): UnitChange((), (0,)), _id(cluster, "two"): UnitChange((), (1,))}
    with pytest.raises(RescheduleError, match="'two' does not answer"):
        _reschedule(cluster, changes, timeout_seconds=1)
    assert _placed(cluster, "one") == (0, 1, 2)
    other.kill()
    _reschedule(cluster, changes)
    assert _placed(cluster, "one") == (1, 2)
    again = Process(cluster.root)
    try:
        assert again.ask("units counts") == "0,2"
        assert again.ask("append 10") == "done"
    finally:
        again.kill()


def test_when_the_asker_dies_before_it_decides_all_go_back(cluster, other, monkeypatch):
    """Whoever waits for the decision gives the trial up; the cluster takes the next change."""
    monkeypatch.setattr(taking_part, "GRACE_SECONDS", 0.0)
    before = _where(cluster)
    fragments = [_id(cluster, "one"), _id(cluster, "two")]
    assert other.ask(f"ask-and-die {fragments[0]},{fragments[1]}") == ""  # it is no more
    revisions = Revisions(LocalStore(cluster.root))
    until = time.monotonic() + SECONDS
    while not revisions.latest().trial or _placed(cluster, "one") != (0, 1, 2):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert _where(cluster) == before
    _reschedule(cluster, {_id(cluster, "one"): UnitChange((), (0,))})
    old.append(cluster.apps["one"], 0, 30)
    old.check(cluster.apps["one"], 30)


def test_two_modules_of_one_process_are_rescheduled_by_one_request(cluster):
    """And removed with their fragments; the other one's ids stay."""
    cluster.deploy(old.module("two"))
    changes = {_id(cluster, "one"): UnitChange((), (0,)), _id(cluster, "two"): UnitChange((), (2,))}
    dry = _reschedule(cluster, changes, dry_run=True)
    assert _placed(cluster, "one") == (0, 1, 2)
    done = _reschedule(cluster, changes)
    assert (dry.vnodes, dry.info) == (done.vnodes, done.info)
    assert (_placed(cluster, "one"), _placed(cluster, "two")) == ((1, 2), (0, 1))
    plan = cluster.whole.set_parallelism("two", "mb", "fixed(5)")
    assert plan.shortage.missing == 2
    assert _placed(cluster, "two") == (0, 1, 2)
    assert cluster.whole.set_parallelism("two", "mb", "fixed(5)").is_noop
    cluster.remove("one")
    assert {each["module"] for each in cluster.whole.describe()["fragments"]} == {"two"}


def test_a_cordon_of_all_modules_is_that_of_each(cluster):
    """Whoever is asked; a worker on which any module runs something is not removed."""
    two = cluster.deploy(old.module("two"))
    one = cluster.apps["one"]
    two.cluster.cordon([0])
    for found in (one.cluster, two.cluster, cluster.whole):
        assert found.info().workers[0].state == "cordoned"
        with pytest.raises(RescheduleError, match="actors"):
            found.remove([0])
    one.cluster.uncordon([0])
    assert cluster.whole.info().workers[0].state == "running"
    cluster.add_worker("w", 1)
    assert [each.id for each in cluster.whole.info().workers] == [0, 1]
    assert _placed(cluster, "one") == _placed(cluster, "two") == (0, 1, 2, 3)


def test_a_worker_that_is_leaving_is_drained_and_leaves_when_empty(cluster):
    """Of all modules; records in flight are counted once, and it is forgotten once it has gone."""
    two = cluster.deploy(old.module("two"))
    cluster.add_worker("w", 2)
    one = cluster.apps["one"]
    for app in (one, two):
        old.append(app, 0, 20)
    worker = next(each.id for each in cluster.whole.info().workers if each.name == "w")
    cluster.whole.leave([worker], wait=True)
    assert cluster.whole.info().worker(worker).state == "leaving"
    assert _placed(cluster, "one") == _placed(cluster, "two") == (0, 1, 2)
    for app in (one, two):
        old.append(app, 20, 20)
        old.check(app, 40)
    cluster.lose_worker("w")
    assert [each.name for each in cluster.whole.info().workers] == ["local"]
    with pytest.raises(WaitTimeoutError, match="still run on workers 0"):
        cluster.whole.leave([0], wait=True, timeout_seconds=0.2)
    cluster.whole.uncordon([0])
    assert cluster.whole.info().worker(0).state == "running"


def test_a_worker_marks_itself_as_leaving_when_its_host_sends_sigterm(cluster):
    """``atoll worker run``: it tells the root, waits until it is empty, and ends its command."""
    cluster.add_worker("w", 2)
    assert _placed(cluster, "one") == (0, 1, 2, 3, 4)
    line = [sys.executable, "-m", "atoll", "worker", "run", "--root", str(cluster.root)]
    line += ["--name", "w", "--", sys.executable, "-c", WORKS]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as host:
        assert host.stdout.readline().strip() == "works"
        host.terminate()
        out, err = host.communicate(timeout=SECONDS)
    assert out.strip() == "asked to end"
    assert "worker w is leaving" in err
    assert "nothing runs there any more" in err
    assert host.returncode == 7
    assert _placed(cluster, "one") == (0, 1, 2)


def test_parallel_units_are_as_many_as_told(tmp_path):
    """Else as many as the worker has cores."""
    with LocalCluster(tmp_path, engine="inline", parallelism=3, units=5) as cluster:
        app = cluster.deploy(old.module("one"))
        assert app.cluster.info().workers[0].units == (0, 1, 2, 3, 4)
    with pytest.raises(DeclarationError):
        LocalCluster(tmp_path, engine="inline", units=0)


@pytest.fixture
def old_root(tmp_path):
    """A root on which each module has workers and revisions of its own."""
    with tarfile.open(Path(old.__file__).with_suffix(".tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_a_root_with_a_cluster_per_module_is_taken_over(old_root):
    """The same worker is one, cordoned for all; fragments stay where they ran, and state as it is.

    Of a module that does not run by now too.
    """
    with LocalCluster(old_root, engine="inline", parallelism=2) as cluster:
        before = cluster.whole.info()
        assert before.revision == 6
        shown = [(each.id, each.name, each.units, each.state) for each in before.workers]
        assert shown == [
            (0, "local", (0, 1), "running"),
            (1, "more", (2,), "gone"),
            (2, "w", (3, 4), "cordoned"),
        ]
        assert before.fragment(2).units == (0, 3)
        assert [each.id for each in before.fragments] == [1, 2, 3, 4, 5, 6]
        assert before.fragment(5).topology == "two/mb"
        assert before.fragment(5).units == (0, 1, 3)
        assert before.policies == {"one/mb": "custom", "two/mb": "bounded(3)"}
        cluster._workers["w"] = 2
        one = cluster.deploy(old.module("one"))
        two = cluster.deploy(old.module("two"))
        pairs = zip(cluster.whole.info().fragments, before.fragments, strict=True)
        assert all((now.id, now.owners) == (was.id, was.owners) for now, was in pairs)
        for app in (one, two):
            old.check(app, old.RECORDS)
        _reschedule(cluster, {2: UnitChange((), (3,)), 5: UnitChange((), (3,))})
        for app in (one, two):
            old.append(app, old.RECORDS, 20)
            old.check(app, old.RECORDS + 20)
        revision = cluster.whole.info().revision
        assert revision > 6
    with LocalCluster(old_root, engine="inline", parallelism=2) as cluster:
        cluster._workers["w"] = 2
        two = cluster.deploy(old.module("two"))
        assert cluster.whole.info().revision == revision
        old.check(two, old.RECORDS + 20)
    assert check_root(old_root).findings == []


def test_two_processes_that_take_a_root_over_agree(old_root):
    """Both saw nothing but what modules had; one makes the first revision, the other the next."""
    first, second = Revisions(LocalStore(old_root)), Revisions(LocalStore(old_root))
    seen = [each.latest() for each in (first, second)]
    assert seen[0] == seen[1]
    made = first.stand(seen[0], Revision(cordon(seen[0], [0]), "", 0, 1, "cordon"))
    assert made.revision == 7
    assert second.stand(seen[1], Revision(cordon(seen[1], [1]), "", 0, 1, "cordon")) is None
    after = second.change(
        lambda registry: cordon(registry, [1]), lambda now: Revision(now, "", 0, 1, "cordon")
    )
    assert after.revision == first.latest().revision == 8
    assert [each.cordoned for each in whole(after).workers] == [True, True, True]


def test_what_concerns_another_module_stands_in_no_one_s_way(cluster):
    """A revision that was made meanwhile is built upon, where both changed other things."""
    cluster.deploy(old.module("two"))
    mine, theirs = Revisions(LocalStore(cluster.root)), Revisions(LocalStore(cluster.root))
    before = mine.latest()
    assert theirs.latest() == before
    one = policy_across(before, "one", "mb", "fixed(2)").after
    two = policy_across(before, "two", "mb", "fixed(1)").after
    assert mine.stand(before, Revision(one, "", 0, 1, "one"), ["one"])
    both = theirs.stand(before, Revision(two, "", 0, 1, "two"), ["two"])
    assert both.revision == before.revision + 2
    assert whole(both).policies == {"one/mb": "fixed(2)", "two/mb": "fixed(1)"}
    again = policy_across(before, "one", "mb", "fixed(1)").after
    assert theirs.stand(before, Revision(again, "", 0, 1, "one"), ["one"]) is None
