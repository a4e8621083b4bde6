"""Defects that recovery of a batch-coordinated dataflow is known to have; none may occur here.

The list is that of the eighteen gaps between promise and code that a study of FaultTolerantOrleans
(a batch coordinator with barriers, reverse and incremental logs on an actor system) found. Each
test names the gap in its docstring. Where a mechanism does not exist here (barriers, buffers), the
test holds what the gap would have broken.
"""

from __future__ import annotations

import shutil
import threading

import pytest

import atoll
from atoll import Map, agg, path, start
from atoll.codec.keys.elements import encode_element
from atoll.engine import actor
from atoll.engine.inline import InlineExecutor
from atoll.errors import FencedError, StorageError
from atoll.microbatch import events as ev
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.objects import GENESIS
from atoll.microbatch.control.options import Options
from atoll.microbatch.coordinator import decide
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.placement.vnodes import vnode_of
from atoll.schema import as_node
from atoll.storage.local import LocalStore

RECORDS = [{"k": number % 5, "v": number - 4} for number in range(10)]
"""The values of key 4 add up to 5, those of key 2 to 1; -4 + 1 and so on: 0 occurs on the way."""


def _module():
    module = atoll.Module("m")
    depot = module.depot("d", "k long, v long", partitions=2, partition_by="k")
    mb = module.microbatch(
        "mb",
        vnode_count=4,
        options={
            "topology.microbatch.retry.delay.max.millis": 1,
            "topology.microbatch.empty.sleep.time.millis": 5,
            "pstate.history.seconds": 0,
            "pstate.checkpoint.interval.commits": 5,
        },
    )
    source = mb.source(depot, start_from=start.beginning())
    sums = mb.pstate("sums", Map(int, int))
    source.aggregate(sums["k"], agg.sum("v"))
    last = mb.pstate("last", Map(int, int))

    def put(row, last):
        last[row.k] = row.v

    source.process(put, key="k", states=[last])
    return module


@pytest.fixture
def cluster(tmp_path):
    """One root; the engine runs in this process."""
    with atoll.LocalCluster(tmp_path / "root", engine="inline") as cluster:
        yield cluster


def _append(app, records):
    app.depot("d").append(records)
    done = sum(app.depot("d").end_offsets())
    app.topology("mb").wait_processed(done, timeout_seconds=120)


def _committed(app):
    return app.topology("mb").status()["committed"]


def _sums(app):
    return dict(app.pstate("sums").select(path.all()))


def _expected(records):
    sums, last = {}, {}
    for each in records:
        sums[each["k"]] = sums.get(each["k"], 0) + each["v"]
        last[each["k"]] = each["v"]
    return sums, last


def _check(app, records):
    sums, last = _expected(records)
    assert _sums(app) == sums
    assert dict(app.pstate("last").select(path.all())) == last


class Flaky:
    """Makes the first attempts fail after their work is done; counts all of them."""

    def __init__(self, monkeypatch, failures):
        self.left = failures
        self.runs = 0
        known = InlineExecutor.run

        def run(executor, *arguments):
            outcome = known(executor, *arguments)
            self.runs += 1
            if self.left:
                self.left -= 1
                raise AttemptError(ActorFailure("E-TEST", "lost after its work was done"))
            return outcome

        monkeypatch.setattr(InlineExecutor, "run", run)


def test_1_records_of_the_next_microbatch_that_come_early_are_not_forgotten(cluster, monkeypatch):
    """Gap 1: what arrived for n+1 before n was committed stayed in a buffer for ever."""
    app = cluster.deploy(_module())
    known = InlineExecutor.run
    early = []

    def run(executor, plan, *arguments):
        if not early:
            early.append(plan.id)
            app.depot("d").append(RECORDS[5:])  # while microbatch n runs
        return known(executor, plan, *arguments)

    monkeypatch.setattr(InlineExecutor, "run", run)
    app.depot("d").append(RECORDS[:5])
    app.topology("mb").wait_processed(10, timeout_seconds=120)
    assert early == [1]
    assert _committed(app) == 2
    _check(app, RECORDS)


@pytest.mark.parametrize("step", [ev.Step.PROCESS, ev.Step.COMMIT, ev.Step.TIDY])
def test_2_a_signal_for_the_next_microbatch_does_not_loop(step):
    """Gap 2: a barrier that came too early was put back and taken out for ever."""
    state = ev.State(1, Options(), GENESIS, {}, Checkpoints({}), step=step, version=1)
    after, command = decide(state, ev.Wake({"d": [0]}, {"d": [5]}, 1))
    assert after == state
    assert isinstance(command, ev.Wait)
    assert command.delay_ms is None or command.delay_ms > 0


def test_3_and_15_a_commit_keeps_what_the_next_one_needs_when_all_else_is_lost(
    tmp_path, monkeypatch
):
    """Gap 3: commit n emptied the whole replay queue; gap 15: a lost coordinator lost all.

    A process ends after it planned n+1 and did its work; the local folder is lost as well.
    """
    root = tmp_path / "root"
    known = LocalStore.create
    refused = threading.Event()

    def create(store, name, data):
        if name.endswith("/commits/" + "2".zfill(20)):
            refused.set()
            raise StorageError("the disk refused: a test")
        known(store, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", create)
        with atoll.LocalCluster(root, engine="inline") as first:
            app = first.deploy(_module())
            _append(app, RECORDS[:5])
            app.depot("d").append(RECORDS[5:])
            assert refused.wait(120)
    shutil.rmtree(root / "local")
    with atoll.LocalCluster(root, engine="inline") as second:
        app = second.deploy(_module())
        app.topology("mb").wait_processed(10, timeout_seconds=120)
        assert _committed(app) == 2
        _check(app, RECORDS)


def test_4_and_16_a_failure_while_recovering_loses_nothing(cluster, monkeypatch):
    """Gap 4: replayed records were not queued again; gap 16: a second failure was an error."""
    flaky = Flaky(monkeypatch, failures=4)
    app = cluster.deploy(_module())
    _append(app, RECORDS)
    assert flaky.runs == 5
    _check(app, RECORDS)


def test_5_a_microbatch_that_was_complete_but_not_committed_can_be_committed(cluster, monkeypatch):
    """Gap 5: a batch in the completed list could never be registered again."""
    known = LocalStore.create
    refused = []

    def create(store, name, data):
        if "/commits" in name and len(refused) < 3:
            refused.append(name)
            raise StorageError("the disk refused: a test")
        known(store, name, data)

    monkeypatch.setattr(LocalStore, "create", create)
    app = cluster.deploy(_module())
    _append(app, RECORDS)
    assert len(refused) == 3
    assert _committed(app) == 1
    _check(app, RECORDS)


def test_6_a_key_inserted_in_a_lost_attempt_is_inserted_again(cluster, monkeypatch):
    """Gap 6: reverse logs were not cleared, so that the same insert failed in the next run."""
    flaky = Flaky(monkeypatch, failures=1)
    app = cluster.deploy(_module())
    _append(app, RECORDS[:5])
    flaky.left = 1
    _append(app, RECORDS[5:])
    assert flaky.runs == 4
    _check(app, RECORDS)


def test_7_a_real_zero_is_not_taken_for_a_missing_value(cluster, monkeypatch):
    """Gap 7: 0 meant "did not exist", so that undoing deleted a value that was 0."""
    app = cluster.deploy(_module())
    _append(app, [{"k": 1, "v": 0}])
    flaky = Flaky(monkeypatch, failures=1)
    seen = []
    known = actor.run_actor

    def spy(program, spec, unit, blobs):
        if spec.version == 2:
            seen.append(_sums(app))
        return known(program, spec, unit, blobs)

    monkeypatch.setattr("atoll.engine.inline.run_actor", spy)
    _append(app, [{"k": 1, "v": 7}, {"k": 2, "v": 0}])
    assert flaky.runs == 2
    assert seen
    assert all(each == {1: 0} for each in seen), "undone: the zero is there, key 2 is not"
    assert _sums(app) == {1: 7, 2: 0}


def test_8_a_commit_never_names_a_log_that_was_not_written(cluster, monkeypatch):
    """Gap 8: a commit was acknowledged although writing its log had failed."""
    known = LocalStore.write
    refused = []

    def write(store, name, data):
        if "/logs/" in name and len(refused) < 2:
            refused.append(name)
            raise StorageError("the disk refused: a test")
        known(store, name, data)

    monkeypatch.setattr(LocalStore, "write", write)
    app = cluster.deploy(_module())
    _append(app, RECORDS)
    assert len(refused) == 2
    shutil.rmtree(cluster.root / "local")
    _check(app, RECORDS)  # so everything is in the logs


def test_9_and_13_a_store_replaced_again_and_again_is_only_then_rebuilt(cluster):
    """Gap 9: a replaced operator was counted twice for ever; gap 13: it stayed "failed"."""
    app = cluster.deploy(_module())
    for number in range(6):
        if number in (2, 4):
            shutil.rmtree(cluster.root / "local")
        _append(app, RECORDS)
        opened = app.topology("mb").status()["opened"]
        assert (opened.get("absent", 0) > 0) == (number in (2, 4)), (number, opened)
    _check(app, RECORDS * 6)


def test_10_an_attempt_begins_only_from_stores_that_were_all_taken_back(cluster, monkeypatch):
    """Gap 10: replay reached units that had not rolled back yet."""
    known = actor.run_actor
    done = []

    def half(program, spec, unit, blobs):
        if spec.version == 1 and unit == 1:
            raise AttemptError(ActorFailure("E-TEST", "one of two actors is lost"))
        done.append((spec.version, unit))
        return known(program, spec, unit, blobs)

    monkeypatch.setattr("atoll.engine.inline.run_actor", half)
    app = cluster.deploy(_module())
    _append(app, RECORDS)
    assert (1, 0) in done
    assert (2, 1) in done
    _check(app, RECORDS)


def test_11_a_request_during_recovery_does_not_race_with_it():
    """Gap 11: registering a wave raced with the clean-up. One function sees one event at a time."""
    state = ev.State(1, Options(), GENESIS, {}, Checkpoints({}), step=ev.Step.PROCESS, version=1)
    failed, command = decide(state, ev.AttemptFailed(ActorFailure("E-TEST", "lost")))
    assert isinstance(command, ev.Wait)
    paused, command = decide(failed, ev.Pause())
    assert isinstance(command, ev.Wait)
    assert paused.condition == ev.Condition.PAUSED
    assert (paused.failures, paused.plan, paused.last) == (1, None, GENESIS)


def test_12_an_actor_that_hung_and_wakes_up_changes_nothing(cluster, monkeypatch):
    """Gap 12: no message carried an epoch, so that a replaced operator kept on working."""
    known = actor.run_actor
    tasks = []

    def spy(program, spec, unit, blobs):
        tasks.append((program, spec, unit, list(blobs)))
        return known(program, spec, unit, blobs)

    monkeypatch.setattr("atoll.engine.inline.run_actor", spy)
    Flaky(monkeypatch, failures=1)
    app = cluster.deploy(_module())
    _append(app, RECORDS)
    late = [task for task in tasks if task[1].version == 1]
    assert late
    for task in late:
        with pytest.raises(FencedError):
            known(*task)
    _check(app, RECORDS)
    _append(app, RECORDS)
    _check(app, RECORDS * 2)


def test_14_nobody_sees_a_value_before_its_commit(cluster, monkeypatch):
    """Gap 14: output was pushed at once, so that observers saw values that were taken back."""
    app = cluster.deploy(_module())
    _append(app, RECORDS[:5])
    before = _sums(app)
    known = InlineExecutor.run
    seen = []

    def run(executor, *arguments):
        outcome = known(executor, *arguments)
        seen.append(_sums(app))
        return outcome

    monkeypatch.setattr(InlineExecutor, "run", run)
    _append(app, RECORDS[5:])
    assert seen == [before]
    _check(app, RECORDS)


def test_17_every_key_has_one_vnode_and_none_is_negative():
    """Gap 17: a signed hash gave negative partitions, and hashed the sentence, not the word."""
    kind = as_node(int)
    for key in [*range(-2_000, 2_000), 2**63 - 1, -(2**63)]:
        vnode = vnode_of(encode_element(key, kind), 7)
        assert 0 <= vnode < 7


def test_18_a_source_that_fails_is_waited_for(cluster):
    """Gap 18: the detector tried to replace a source, and threw."""
    app = cluster.deploy(_module())
    _append(app, RECORDS[:5])
    topology = app.topology("mb")
    topology.pause()
    app.depot("d").append(RECORDS[5:])
    folder = cluster.root / "m/depots/d/segments"
    folder.rename(folder.with_name("gone"))
    topology.resume()
    wait_until(lambda: topology.status()["error"] is not None)
    assert "missing" in topology.status()["error"]["message"]
    folder.with_name("gone").rename(folder)
    if topology.status()["state"] == "failed":
        topology.resume()
    topology.wait_processed(10, timeout_seconds=120)
    _check(app, RECORDS)


def wait_until(condition, seconds=120.0):
    """Wait for a condition, with a cap."""
    gate = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        gate.wait(0.01)
    pytest.fail("it did not happen")
