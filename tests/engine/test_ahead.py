"""Rows packed before an attempt asks for them: used for exactly the same reading, and only once."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

import atoll
from atoll import Map, agg, start
from atoll.beats import Task
from atoll.engine.beside import Beside
from atoll.engine.exchange.ahead import ReadAhead, is_foreseeable, share_ahead
from atoll.microbatch.commits.objects import Plan
from atoll.spark.standing import task as tasks
from atoll.spark.standing.messages import Part, Request, Work
from atoll.spark.standing.task import answer
from atoll.testing import TopologyTestDriver
from atoll.topology.times import Times

ROW = "k long, v long, at long"
TIMED = Times(now_ms=5_000, watermarks={"rows.at": 3_000})


def declare():
    """A topology whose reading tasks look at no time, at event time, at the clock."""
    module = atoll.Module("m")
    rows = module.depot("rows", ROW, partition_by="k", partitions=2)
    closed = module.depot("closed", "k long, window_start long, window_end long, n long")
    for name in ("plain", "event", "clock"):
        mb = module.microbatch(name, vnode_count=8)
        read = mb.source(rows, start_from=start.beginning())
        if name == "event":
            windows = read.with_watermark("at", "1 second").window("at", "2 seconds")
            windows.aggregate_windows("k", n=agg.count()).append_to(closed)
        elif name == "clock":
            read = read.with_processing_time("now")
        read.aggregate(mb.pstate(f"{name}_sums", Map(int, int))["k"], agg.sum("v"))
    return module


@pytest.fixture(scope="module")
def driver():
    """With forty records that nobody has read."""
    with TopologyTestDriver(declare(), engine="inline") as made:
        made.depot("rows").append([{"k": n % 7, "v": n, "at": n * 100} for n in range(40)])
        yield made


@pytest.fixture
def reading(driver):
    """The program of a topology and the first job of its first microbatch."""

    def of(name="plain", **times):
        loop = driver._loops[name]
        executor = loop.executor.executor
        executor._place(loop.status.state.placement)
        ends = [(0, end) for end in driver.depot("rows").end_offsets()]
        plan = Plan(1, 1, 5_000, {"rows": ends}, {})
        spec = executor.specs.spec(plan, 1, 0, executor.program.jobs[0], [])
        return executor.program, replace(spec, times=replace(TIMED, **times))

    return of


def kept(program, spec):
    """What was packed ahead of it."""
    found = ReadAhead()
    found.keep(program, spec, {0: share_ahead(program, spec, 0)})
    return found


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": 2, "version": 3},
        {"due": {"s": frozenset({1})}, "mirrors": {"a/b": 4}},
        {"checkpoint_vnodes": {"s": (1,)}, "migrate_vnodes": {"s": (2,)}},
        {"times": Times(now_ms=9)},
    ],
)
def test_what_only_actors_look_at_may_change(reading, changed):
    """The same rows are packed; they are used once."""
    program, spec = reading()
    found = kept(program, spec)
    assert list(found.take(program, replace(spec, **changed))) == [0]
    assert found.take(program, spec) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"id": 2, "committed": 1},
        {"timeline": 1},
        {"careful": True},
        {"combine_rows_max": 7},
        {"ranges": {"rows": [(0, 1), (0, 1)]}},
        {"splits": ((),)},
    ],
)
def test_any_other_reading_drops_it(reading, changed):
    """Also for those who come later and ask for the first one."""
    program, spec = reading()
    found = kept(program, spec)
    assert found.take(program, replace(spec, **changed)) == {}
    assert found.take(program, spec) == {}


def test_one_record_less_drops_it(reading):
    """As when the plan was cut."""
    program, spec = reading()
    found = kept(program, spec)
    ((split, *others),) = spec.splits
    *before, last = split.blocks
    fewer = msgspec.structs.replace(last, take=last.take - 1)
    cut = replace(split, blocks=(*before, fewer))
    assert found.take(program, replace(spec, splits=((cut, *others),))) == {}


def test_another_program_drops_it(reading):
    """As another placement does, even one that is equal."""
    program, spec = reading()
    assert kept(program, spec).take(replace(program), spec) == {}


def test_other_units_drop_what_was_packed_for_them_alone(reading):
    """What tasks packed for all is nothing for actors that read for themselves."""
    program, spec = reading()
    assert kept(program, spec).take(program, spec, (0, 1)) == {}


def test_time_counts_where_a_step_looks_at_it(reading):
    """Event time for windows: the clock may go on, the watermark may not."""
    program, spec = reading("event")
    assert is_foreseeable(program, spec)
    _, later = reading("event", now_ms=9_000)
    assert list(kept(program, spec).take(program, later)) == [0]
    _, moved = reading("event", watermarks={"rows.at": 3_001})
    assert kept(program, spec).take(program, moved) == {}


def test_what_looks_at_the_clock_cannot_be_foreseen(reading):
    """It would be read in vain each time."""
    assert not is_foreseeable(*reading("clock"))
    assert is_foreseeable(*reading())


def test_a_process_keeps_rows_of_a_few_topologies(reading):
    """Those of the oldest go first."""
    program, spec = reading()
    found = ReadAhead()
    programs = [replace(program, topology=f"t{n}") for n in range(5)]
    for each in programs:
        found.keep(each, spec, {0: share_ahead(each, spec, 0)})
    assert [list(found.take(each, spec)) for each in programs] == [[], [0], [0], [0], [0]]


@pytest.mark.parametrize(
    ("ahead", "work"), [(Work.PACK_AHEAD, Work.PACK), (Work.DIRECT_AHEAD, Work.DIRECT)]
)
def test_a_standing_task_uses_what_it_has_read(reading, monkeypatch, ahead, work):
    """Packed rows and manifests as without; each request finds it once."""
    program, spec = reading()
    monkeypatch.setattr(Task, "spent_ms", lambda _: {})  # never twice the same
    monkeypatch.setattr(tasks, "Shipped", lambda *_: SimpleNamespace(load=lambda: program))
    monkeypatch.setattr(tasks, "run_actor", lambda _p, _s, unit, blobs: _Told(unit, list(blobs)))
    parts = [Part(0)] if work == Work.PACK else [Part(unit) for unit in program.units]

    def ask(what, version):
        told = pickle.dumps(replace(spec, version=version))
        found = answer(Request(1, what, "d", b"p", told, parts))
        assert found.failure is None
        assert found.attempt == (1, 1, version, 0)
        assert all(each.failure is None for each in found.results)
        return found.results

    without = ask(work, 1)
    assert [each.blobs for each in ask(ahead, 0)] == [[]] * len(parts)
    piped, again = ask(work, 1), ask(work, 1)
    assert [each.ahead for each in (*piped, *again)] == [True] * len(parts) + [False] * len(parts)
    bare = [msgspec.structs.replace(each, ahead=False) for each in piped]
    assert bare == without == again


class _Told:
    """In the place of a manifest: what the actor was given."""

    def __init__(self, unit, blobs):
        self.told = unit, [(tag, task, rows.to_pybytes()) for tag, task, rows in blobs]

    def __eq__(self, other):
        return self.told == other.told

    def __hash__(self):
        return 0


def test_work_beside_is_waited_for_and_fails_alone():
    """Whoever ends it goes on when it has ended; what it raises reaches nobody."""
    beside, going, done = Beside("b"), threading.Event(), []

    def work():
        assert going.wait(30)
        done.append(1)
        raise OSError("no disk")

    beside.begin(work)
    assert done == []
    going.set()
    beside.end()
    assert done == [1]
    beside.end()
