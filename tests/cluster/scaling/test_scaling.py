"""Changing parallelism while a module runs: what moves, what stays, what is refused.

On the inline engine, so that many changes take little time; one test does the same on Spark.
"""

from __future__ import annotations

import threading
import time

import pytest

from atoll import List, LocalCluster, Map, Module, Struct, agg, path
from atoll.errors import NotFoundError, RescheduleError, StateError, UsageError
from atoll.placement.reschedule.change import UnitChange

ACCOUNTS = 40
EACH = 100


def _debit(row, funds, outgoing):
    ok = funds.get(row.src, EACH) >= row.amount
    if ok:
        funds[row.src] = funds.get(row.src, EACH) - row.amount
    outgoing[row.src][row.id] = row.amount
    yield {**row.asdict(), "ok": ok}


def _credit(row, funds, incoming):
    if row.ok:
        funds[row.dst] = funds.get(row.dst, EACH) + row.amount
        incoming[row.dst][row.id] = row.amount


def build(vnode_count=16, raising=None):
    """Transfers between accounts, and a topology of its own that counts them."""
    module = Module("bank")
    transfers = module.depot(
        "transfers", "id long, src long, dst long, amount long", partition_by="src"
    )
    mb = module.microbatch("mb", vnode_count=vnode_count)
    funds = mb.pstate("funds", Map(int, int))
    outgoing = mb.pstate("outgoing", Map(int, Map(int, int)))
    incoming = mb.pstate("incoming", Map(int, Map(int, int)))
    (
        mb.source(transfers)
        .process(
            _debit,
            key="src",
            states=[funds, outgoing],
            emits="id long, src long, dst long, amount long, ok boolean",
        )
        .process(_credit, key="dst", states=[funds, incoming])
    )
    other = module.microbatch("counting", vnode_count=vnode_count)
    total = other.pstate("total", int, initial=0)
    largest = other.pstate("largest", List(Struct(id=int, amount=int)))
    by_amount = other.pstate("by_amount", Map(int, int))
    stream = other.source(transfers)
    if raising is not None:
        stream = stream.map(raising, emits="id long, src long, dst long, amount long")
    stream.aggregate(total, agg.sum("amount"))
    stream.aggregate(
        largest, agg.top_n(3, by="amount", columns={"id": "id", "amount": "amount"}, id="id")
    )
    stream.aggregate(by_amount["amount"], agg.count())
    return module


@pytest.fixture
def cluster(tmp_path):
    """Three units on the inline engine."""
    with LocalCluster(tmp_path / "root", engine="inline", parallelism=3) as started:
        yield started


def _transfers(first, count):
    return [
        {
            "id": number,
            "src": number * 7 % ACCOUNTS,
            "dst": number * 11 % ACCOUNTS,
            "amount": number % 23 + 1,
        }
        for number in range(first, first + count)
    ]


def _append(app, first, count):
    app.depot("transfers").append(_transfers(first, count))
    for topology in app.topologies():
        app.topology(topology).wait_processed(first + count)


def _check(app, count):
    """The state equals a plain fold of the records."""
    records = _transfers(0, count)
    assert app.pstate("total").get() == sum(each["amount"] for each in records)
    amounts = {n: sum(each["amount"] == n for each in records) for n in range(1, 24)}
    found = dict(app.pstate("by_amount").select(path.all()))
    assert found == {n: many for n, many in amounts.items() if many}
    funds = dict(app.pstate("funds").select(path.all()))
    outgoing = {k: dict(v) for k, v in app.pstate("outgoing").select(path.all())}
    incoming = {k: dict(v) for k, v in app.pstate("incoming").select(path.all())}
    sent = {k: set(v) for k, v in outgoing.items()}
    assert {n for ids in sent.values() for n in ids} == set(range(count))
    assert sum(funds.values()) == EACH * len(funds)
    for account, value in funds.items():
        received = sum(incoming.get(account, {}).values())
        assert value <= EACH + received


def _units(app, topology):
    return {f.name: f.units for f in app.cluster.info().fragments if f.topology == topology}


def _id(app, name, topology="mb"):
    found = app.cluster.info().fragments
    return next(f.id for f in found if f.name == name and f.topology == topology)


def _reschedule(app, changes, **options):
    revision = app.cluster.info().revision
    return app.cluster.reschedule(changes, revision=revision, **options)


def test_the_fragments_are_the_steps_that_share_no_exchange(cluster):
    """Steps on the same state follow the first of them; a global is a singleton of its own."""
    app = cluster.deploy(build())
    info = app.cluster.info()
    shown = [(f.topology, f.name, f.kind, f.pstates, f.root) for f in info.fragments]
    assert shown == [
        ("mb", "source", "source", (), 1),
        ("mb", "process _debit", "hash", ("funds", "outgoing"), 2),
        ("mb", "process _credit", "hash", ("funds", "incoming"), 2),
        ("counting", "source", "source", (), 4),
        ("counting", "aggregate total", "singleton", ("total",), 5),
        ("counting", "aggregate largest", "singleton", ("largest",), 6),
        ("counting", "aggregate by_amount", "hash", ("by_amount",), 7),
    ]
    assert info.policies == {"mb": "adaptive", "counting": "adaptive"}
    assert [w.units for w in info.workers] == [(0, 1, 2)]


def test_the_edges_between_fragments_are_in_the_cluster_info(cluster):
    """Both ways; the rows of a step go to those after it, whatever lies between."""
    app = cluster.deploy(build())
    assert {each.id: each.upstream for each in app.cluster.info().fragments} == {
        1: (),
        2: (1,),
        3: (2,),
        4: (),
        5: (4,),
        6: (4,),
        7: (4,),
    }
    for described in (app.cluster.describe(), cluster.whole.describe()):
        edges = {each["id"]: each["downstream"] for each in described["fragments"]}
        assert edges == {1: [2], 2: [3], 3: [], 4: [5, 6, 7], 5: [], 6: [], 7: []}
        assert described["fragments"][2]["upstream"] == [2]


def test_in_out_and_sideways_under_load_the_state_stays_that_of_the_records(cluster):
    """Each change moves the least, the next microbatch runs there, and the sums are right."""
    app = cluster.deploy(build())
    cluster.add_worker("more", 5)
    done = 0
    steps = [
        {"process _debit": UnitChange((), (1, 2))},
        {"process _debit": UnitChange((1, 2, 3, 4, 5, 6, 7), ())},
        {"process _debit": UnitChange((), (0, 3)), "source": UnitChange((), (0,))},
        {"process _debit": UnitChange((0,), (7,))},
    ]
    _reschedule(app, {_id(app, "process _debit"): UnitChange((), (3, 4, 5, 6, 7))})
    for step in steps:
        _append(app, done, 60)
        done += 60
        app.depot("transfers").append(_transfers(done, 60))  # in flight while it moves
        done += 60
        plan = _reschedule(app, {_id(app, name): change for name, change in step.items()})
        assert plan.info == app.cluster.info()
        for name, change in step.items():
            units = set(_units(app, "mb")[name])
            assert not units & set(change.removed)
            assert units >= set(change.added)
        assert _units(app, "mb")["process _credit"] == _units(app, "mb")["process _debit"]
        for topology in app.topologies():
            app.topology(topology).wait_processed(done)
        _check(app, done)
    assert app.cluster.info().policies["mb"] == "custom"


def test_it_returns_when_a_microbatch_has_committed_there(cluster):
    """Also when no record waits; several topologies in one request move together."""
    app = cluster.deploy(build())
    _append(app, 0, 10)
    before = {name: app.topology(name).status()["committed"] for name in app.topologies()}
    _reschedule(
        app,
        {
            _id(app, "process _debit"): UnitChange((), (2,)),
            _id(app, "aggregate by_amount", "counting"): UnitChange((), (0,)),
            _id(app, "aggregate total", "counting"): UnitChange((2,), (0,)),
        },
    )
    after = {name: app.topology(name).status()["committed"] for name in app.topologies()}
    assert after == {name: count + 1 for name, count in before.items()}
    assert _units(app, "counting")["aggregate total"] == (2,)
    _append(app, 10, 10)
    _check(app, 20)


def test_a_dry_run_changes_nothing(cluster):
    """It says what would move, and how many bytes."""
    app = cluster.deploy(build())
    _append(app, 0, 30)
    before = app.cluster.info()
    committed = app.topology("mb").status()["committed"]
    debit = _id(app, "process _debit")
    plan = _reschedule(app, {debit: UnitChange((), (2,))}, dry_run=True)
    assert plan.vnodes[debit] == {0: (6, 8), 1: (5, 8), 2: (5, 0)}
    assert plan.bytes_moved == 0  # all units are one worker's
    assert app.cluster.info() == before
    assert app.topology("mb").status()["committed"] == committed


def test_what_cannot_be_is_refused_and_nothing_changes(cluster):
    """A stale revision tells the current one."""
    app = cluster.deploy(build())
    before = app.cluster.info()
    with pytest.raises(RescheduleError, match="revision") as raised:
        app.cluster.reschedule({2: UnitChange((), (0,))}, revision=before.revision + 5)
    assert raised.value.context["problem"] == "stale revision"
    assert raised.value.context["revision"] == before.revision
    for changes, problem in (
        ({99: UnitChange((), (0,))}, "unknown fragment"),
        ({3: UnitChange((), (0,))}, "follows another"),
        ({2: UnitChange((), (0, 1, 2))}, "nothing left"),
        ({2: UnitChange((), (0,)), 5: UnitChange((1,), ())}, "singleton"),
    ):
        with pytest.raises(RescheduleError) as raised:
            _reschedule(app, changes)
        assert raised.value.context["problem"] == problem
    assert app.cluster.info() == before


@pytest.fixture
def breakable(tmp_path):
    """A cluster whose topology ``counting`` fails while an event is set, and that event."""
    broken = threading.Event()

    def raising(row):
        if broken.is_set():
            raise ValueError("broken")
        return row

    with LocalCluster(tmp_path / "root", engine="inline", parallelism=3) as cluster:
        app = cluster.deploy(build(raising=raising))
        _append(app, 0, 20)
        yield cluster, app, broken


def test_when_one_topology_fails_there_all_stay_where_they_were(breakable):
    """The request is atomic: also the topology that could go comes back."""
    _, app, broken = breakable
    before = app.cluster.info()
    broken.set()
    app.depot("transfers").append(_transfers(20, 5))
    with pytest.raises(RescheduleError, match="counting") as raised:
        _reschedule(app, {2: UnitChange((), (0,)), 7: UnitChange((), (1,))})
    assert raised.value.context["problem"] == "not taken"
    assert app.cluster.info() == before
    broken.clear()
    _append(app, 25, 5)
    for name in app.topologies():
        placed = app._loops[name].status.state.placement
        assert placed.units == (0, 1, 2), name
    _check(app, 30)


def _placed(app, name):
    """Where the topology itself runs."""
    return app._loops[name].status.state.placement.units


def test_who_comes_back_comes_back_though_it_fails_by_now(breakable, monkeypatch):
    """What was moved and must go back is not asked whether it can."""
    _, app, broken = breakable
    before = app.cluster.info()
    inner, counting = app._loops["mb"], app._loops["counting"]
    stood, place = counting.status.state.placement, inner.place

    def then_break(to, timeout_seconds=60.0, *, trial=True):
        """The topology that moves fails for good once ``counting`` has moved."""
        if trial:
            until = time.monotonic() + 120
            while counting.status.state.placement == stood and time.monotonic() < until:
                time.sleep(0.001)
            broken.set()
            app.depot("transfers").append(_transfers(20, 5))
            raise StateError("it cannot")
        place(to, timeout_seconds, trial=trial)

    monkeypatch.setattr(inner, "place", then_break)
    with pytest.raises(RescheduleError, match="'mb'"):
        _reschedule(app, {2: UnitChange((), (0,)), 7: UnitChange((), (1,))})
    assert broken.is_set()
    assert app.cluster.info() == before
    assert counting.status.state.placement == stood
    broken.clear()
    _append(app, 25, 5)
    _check(app, 30)


def test_a_topology_that_fails_keeps_nobody_from_joining(breakable):
    """The others use the worker at once; it follows by itself when it runs again."""
    cluster, app, broken = breakable
    broken.set()
    app.depot("transfers").append(_transfers(20, 5))
    cluster.add_worker("w", 2)
    assert _placed(app, "mb") == (0, 1, 2, 3, 4)
    assert _units(app, "mb")["process _debit"] == (0, 1, 2, 3, 4)
    assert _placed(app, "counting") == (0, 1, 2)
    assert _units(app, "counting")["aggregate by_amount"] == (0, 1, 2)
    assert app.cluster.settle() == app.cluster.info()
    broken.clear()
    app.topology("counting").wait_processed(25)
    app.cluster.settle()
    assert _placed(app, "counting") == (0, 1, 2, 3, 4)
    assert _units(app, "counting")["aggregate by_amount"] == (0, 1, 2, 3, 4)
    _append(app, 25, 5)
    _check(app, 30)


def test_a_topology_that_fails_leaves_a_lost_worker_all_the_same(breakable):
    """There is no way back to what is gone."""
    cluster, app, broken = breakable
    cluster.add_worker("w", 2)
    broken.set()
    app.depot("transfers").append(_transfers(20, 5))
    revision = app.cluster.info().revision
    cluster.lose_worker("local")
    assert app.cluster.info().revision == revision + 1
    for name in app.topologies():
        assert _placed(app, name) == (3, 4), name
        assert {unit for units in _units(app, name).values() for unit in units} == {3, 4}
    broken.clear()
    _append(app, 25, 5)
    _check(app, 30)


def test_rebuilding_in_place_is_a_revision(cluster):
    """What a dry run announces comes true."""
    app = cluster.deploy(build())
    _append(app, 0, 20)
    asked = {2: UnitChange((0,), (0,))}
    revision = app.cluster.info().revision
    told = app.cluster.reschedule(asked, revision=revision, dry_run=True)
    done = app.cluster.reschedule(asked, revision=revision)
    assert told.info.revision == done.info.revision == app.cluster.info().revision == revision + 1
    assert app.cluster.reschedule({}, revision=revision + 1).is_noop
    assert app.cluster.info().revision == revision + 1


def test_a_module_that_stops_takes_no_change(cluster):
    """Of any kind."""
    app = cluster.deploy(build())
    before = app.cluster.info()
    app.close()
    for change in (
        lambda: app.cluster.cordon([0]),
        lambda: app.cluster.set_parallelism("mb", "2"),
        lambda: app.cluster.resize("mb", 2),
        lambda: _reschedule(app, {2: UnitChange((), (0,))}),
    ):
        with pytest.raises(RescheduleError) as raised:
            change()
        assert raised.value.context["problem"] == "unavailable"
    assert app.cluster.info() == before


def test_policies_answer_to_workers(cluster):
    """Adaptive takes all units, bounded and fixed what they say, custom what it was given."""
    app = cluster.deploy(build())
    for policy, few, many in (
        ("adaptive", 3, 5),
        ("bounded(4)", 3, 4),
        ("ratio(0.4)", 1, 2),
        ("2", 2, 2),
    ):
        app.cluster.set_parallelism("mb", policy)
        assert len(_units(app, "mb")["process _debit"]) == few, policy
        cluster.add_worker("w", 2)
        assert len(_units(app, "mb")["process _debit"]) == many, policy
        cluster.lose_worker("w")
        assert len(_units(app, "mb")["process _debit"]) == few, policy
    _reschedule(app, {2: UnitChange((), _units(app, "mb")["process _debit"][:1])})
    cluster.add_worker("w", 2)
    assert len(_units(app, "mb")["process _debit"]) == 1
    _append(app, 0, 40)
    _check(app, 40)
    with pytest.raises(UsageError):
        app.cluster.set_parallelism("mb", "ratio(1.1)")


def test_a_running_service_gets_units_and_gives_them_back(cluster):
    """With records in flight: policies answer to it, and the state stays that of the records."""
    app = cluster.deploy(build())
    app.cluster.set_parallelism("mb", "4")
    done = 0
    for units, ids in ((5, (0, 1, 2, 3)), (2, (0, 1)), (2, (0, 1)), (4, (0, 1, 5, 6)), (1, (0,))):
        app.depot("transfers").append(_transfers(done, 60))
        done += 60
        cluster.set_units(units)
        assert _units(app, "mb")["process _debit"] == ids
        assert len(app.cluster.info().live_units()) == units
        _append(app, done, 20)
        done += 20
        _check(app, done)
    app.pause()
    cluster.set_units(3)  # a paused topology takes them at once
    assert len(_units(app, "mb")["process _debit"]) == 3
    for wrong in (0, 1025):
        with pytest.raises(UsageError):
            cluster.set_units(wrong)


def test_units_that_come_hold_for_modules_that_come_later_too(tmp_path):
    """And a cluster that is started again has what it is started with; a policy stays."""
    root = tmp_path / "root"
    with LocalCluster(root, engine="inline", parallelism=1) as cluster:
        cluster.set_units(4)
        app = cluster.deploy(build())
        app.cluster.set_parallelism("mb", "3")
        assert _units(app, "mb")["process _debit"] == (0, 1, 2)
        _append(app, 0, 40)
    with LocalCluster(root, engine="inline", parallelism=1) as cluster:
        app = cluster.deploy(build())
        assert _units(app, "mb")["process _debit"] == (0,)
        cluster.set_units(4)
        assert len(_units(app, "mb")["process _debit"]) == 3
        _append(app, 40, 40)
        _check(app, 80)


def test_a_lost_worker_s_vnodes_go_to_the_survivors_at_once(cluster):
    """Singletons move as well; when it comes back, adaptive topologies use it again."""
    app = cluster.deploy(build())
    cluster.add_worker("w", 3)
    _append(app, 0, 40)
    cluster.lose_worker("local")
    for topology in app.topologies():
        for name, units in _units(app, topology).items():
            assert set(units) <= {3, 4, 5}, name
    _append(app, 40, 40)
    cluster.add_worker("local", 3)
    assert _units(app, "mb")["process _debit"] == (0, 1, 2, 3, 4, 5)
    _append(app, 80, 40)
    _check(app, 120)
    with pytest.raises(NotFoundError):
        cluster.lose_worker("nobody")


def test_a_cordoned_worker_keeps_what_it_has_and_gets_nothing_new(cluster):
    """Draining: cordon, move, remove; removing before is refused with what is there."""
    app = cluster.deploy(build())
    cluster.add_worker("w", 2)
    worker = app.cluster.info().workers[1]
    app.cluster.cordon([worker.id])
    assert set(worker.units) <= set(_units(app, "mb")["process _debit"])
    with pytest.raises(RescheduleError, match="cordoned"):
        _reschedule(app, {5: UnitChange(worker.units[:1], (0,))})
    with pytest.raises(RescheduleError) as raised:
        app.cluster.remove([worker.id])
    assert raised.value.context["problem"] == "worker occupied"
    assert 2 in raised.value.context["fragments"]
    info = app.cluster.info()
    _reschedule(
        app,
        {
            f.id: UnitChange((), tuple(u for u in f.units if u in worker.units))
            for f in info.roots()
            if set(f.units) & set(worker.units)
        },
    )
    app.cluster.remove([worker.id])
    assert [each.name for each in app.cluster.info().workers] == ["local"]
    _append(app, 0, 30)
    _check(app, 30)


def test_a_paused_topology_moves_at_once_and_stays_paused(cluster):
    """It goes on there when it is resumed."""
    app = cluster.deploy(build())
    _append(app, 0, 10)
    app.topology("mb").pause()
    _reschedule(app, {2: UnitChange((), (0, 1))})
    assert app.topology("mb").status()["state"] == "paused"
    app.topology("mb").resume()
    _append(app, 10, 10)
    _check(app, 20)


def test_a_restart_goes_on_where_fragments_ran(tmp_path):
    """Ids, custom places and policies last; units that are gone are replaced."""
    root = tmp_path / "root"
    with LocalCluster(root, engine="inline", parallelism=4) as cluster:
        app = cluster.deploy(build())
        _reschedule(app, {2: UnitChange((), (0, 2))})
        app.cluster.set_parallelism("counting", "fixed(2)")
        _append(app, 0, 20)
        before = app.cluster.info()
    with LocalCluster(root, engine="inline", parallelism=4) as cluster:
        app = cluster.deploy(build())
        assert app.cluster.info() == before
        _append(app, 20, 20)
    with LocalCluster(root, engine="inline", parallelism=2) as cluster:
        app = cluster.deploy(build())
        assert _units(app, "mb")["process _debit"] == (0, 1)
        assert _units(app, "counting")["aggregate by_amount"] == (0, 1)
        _append(app, 40, 20)
        _check(app, 60)


@pytest.mark.slow
def test_the_same_on_spark(tmp_path):
    """Out to more actors than cores, in to one, with records in flight."""
    with LocalCluster(tmp_path / "root", parallelism=2) as cluster:
        app = cluster.deploy(build(vnode_count=32))
        cluster.add_worker("more", 6)
        done = 0
        for change in (
            UnitChange((), (0, 1, 2, 5)),
            UnitChange((), (4, 6, 7)),
            UnitChange((0, 1, 7), (3,)),
        ):
            app.depot("transfers").append(_transfers(done, 300))
            done += 300
            _reschedule(app, {2: change})
            for topology in app.topologies():
                app.topology(topology).wait_processed(done)
            _check(app, done)
