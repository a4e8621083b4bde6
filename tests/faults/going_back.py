"""A topology that goes back in the middle of its life, dies meanwhile, and what must hold then.

Eighteen records make six microbatches; then it goes back by two, resumes, and more records come.
Everything here runs in children; each says what it has done, and :func:`check` looks at what lies
on the disk afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import oracle
import scenario
from checker import violation
from interpose import Call, Interposer
from scenario import record_of, say

import atoll
from atoll import LocalCluster, Map, Struct, agg, path, start
from atoll.ddl import parse_ddl
from atoll.depot.reader import DepotReader
from atoll.microbatch.commits.history import commit_objects, latest_commit, read_commit
from atoll.microbatch.commits.tidy import files_of
from atoll.microbatch.commits.timelines import read_timelines
from atoll.microbatch.plans.attempts import attempt_objects, plan_tried
from atoll.storage.folders import depot_folder
from atoll.storage.local import LocalStore

__all__ = ["check", "count_calls", "die_at", "finish"]

MODULE, TOPOLOGY, DEPOT = "back", "fold", "events"
STATES = ("totals", "trail")
_RECORD = "n long, k long, v long"
_SCHEMA = parse_ddl(_RECORD)
PER_APPEND, BEFORE, AFTER = 3, 18, 27
LAST, BACK_TO = 6, 4
"""The last microbatch before it goes back, and the one that it goes back to."""


def build() -> atoll.Module:
    """One depot, two PStates, frequent checkpoints."""
    module = atoll.Module(MODULE)
    events = module.depot(
        DEPOT,
        _RECORD,
        partition_by=scenario._by_k,
        partitions=scenario.DEPOTS[DEPOT],
        retain_records=6,
    )
    fold = module.microbatch(
        TOPOLOGY,
        vnode_count=8,
        options={
            "pstate.history.seconds": 0,
            "pstate.checkpoint.interval.commits": 2,
            "pstate.history.microbatches": 3,
            "topology.microbatch.empty.sleep.time.millis": 20,
        },
    )
    totals = fold.pstate("totals", Map(int, Struct(sum=int, count=int)))
    trail = fold.pstate("trail", Map(int, int))
    source = fold.source(events, start_from=start.beginning())
    source.aggregate(totals["k"], sum=agg.sum("v"), count=agg.count())
    source.process(scenario._follow, key="k", states=[trail])
    return module


# Lives --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _running(root: str) -> Iterator[Any]:
    with scenario.tuned(), LocalCluster(root, engine="inline") as cluster:
        yield cluster.deploy(build())


def _fill(app: Any, upto: int) -> None:
    """Append up to so many records; each call is waited for."""
    depot = app.depot(DEPOT)
    known = sum(depot.end_offsets())
    app.topology(TOPOLOGY).wait_processed(known, 30)
    while known < upto:
        say("try", known + PER_APPEND)
        depot.append([record_of(DEPOT, known + n) for n in range(PER_APPEND)])
        known += PER_APPEND
        say("acked", known)
        app.topology(TOPOLOGY).wait_processed(known, 30)


def _go_back(app: Any) -> None:
    topology = app.topology(TOPOLOGY)
    topology.rollback(BACK_TO)
    say("went back", topology.status()["committed"])
    topology.resume()


def _live(root: str, calls: Interposer) -> Iterator[None]:
    """A whole life; it stops once, before it goes back."""
    with calls, _running(root) as app:
        _fill(app, BEFORE)
        app.topology(TOPOLOGY).pause()
        say("committed", app.topology(TOPOLOGY).status()["committed"])
        yield
        _go_back(app)
        _fill(app, AFTER)


def count_calls(root: str) -> None:
    """Live to the end, and say how many calls there were from the request to go back on."""
    calls = Interposer(root)
    life = _live(root, calls)
    next(life)
    before = calls.calls
    for _ in life:
        pass
    say("calls", calls.calls - before)


def die_at(root: str, number: int, torn: bool) -> None:
    """Die before the n-th call since the request to go back."""
    calls = Interposer(root)
    life = _live(root, calls)
    next(life)
    number += calls.calls

    def tell(call: Call) -> None:
        if call.number == number:
            say("dying", [call.kind, call.path, call.target])

    calls.on_call = tell
    calls.kill_at(number, torn=torn)
    for _ in life:
        pass


def finish(root: str) -> None:
    """The life after: it goes back if that did not happen, and does the rest; then one more."""
    with _running(root) as app:
        topology = app.topology(TOPOLOGY)
        topology.resume()  # it was paused when it died, or by the rollback, and stays so
        if topology.status()["timeline"] == 0:
            topology.wait_processed(sum(app.depot(DEPOT).end_offsets()), 30)
            topology.pause()
            _go_back(app)
        _fill(app, AFTER)
        say("final", _state(app))
    with _running(root) as app:
        _fill(app, AFTER)
        say("again", _state(app))


def _state(app: Any) -> dict[str, Any]:
    return {
        name: {str(key): value for key, value in app.pstate(name).select(path.all())}
        for name in STATES
    }


# What lies there ----------------------------------------------------------------------------------


def check(root: str, acked: int, tried: int, went: bool, finished: bool) -> None:
    """It went back wholly or not at all, and the state is the fold of the line's commits.

    Args:
        root: The root.
        acked: How many records were acknowledged.
        tried: How many had been handed over by then.
        went: Whether it was told that it went back.
        finished: Whether all was processed since: then nothing else may be left either.
    """
    store = LocalStore(root)
    timelines = read_timelines(store, MODULE, TOPOLOGY)
    last = latest_commit(store, MODULE, TOPOLOGY)
    violation(timelines.number <= 1, "I4", "it went back more than once", timelines)
    violation(timelines.number == 1 or not went, "I5", "what it was told is undone", last.id)
    ids = range(max(last.floor, 1), last.id + 1)
    line = [read_commit(store, MODULE, TOPOLOGY, each, timelines) for each in ids]
    if timelines.number:
        violation(timelines.branch == BACK_TO, "I4", "it went back elsewhere", timelines)
        numbers = commit_objects(store, MODULE, TOPOLOGY, 1).numbers()
        wanted = list(range(max(last.floor, BACK_TO + 1), last.id + 1))
        violation([n for n in numbers if n >= last.floor] == wanted, "I4", "a gap", numbers)
    else:
        violation(last.id == LAST, "I4", "half gone back", last.id)
    for one, other in itertools.pairwise(line):
        starts = [begin for begin, _ in other.ranges[DEPOT]]
        violation(starts == one.ends()[DEPOT], "I4", "the line is broken", one.id, other.id)
        violation(other.processed == one.processed + other.records, "I4", "the count", other.id)
    found = _state(atoll.connect(root, MODULE))
    expected = oracle.bank(last.ends())
    for name in STATES:
        violation(found[name] == expected[name], "I3", name, found[name], expected[name])
    ends = list(DepotReader(depot_folder(store.root, MODULE, DEPOT), _SCHEMA).end_offsets())
    violation(ends in [oracle.ends_of(DEPOT, n) for n in {acked, tried}], "I1", "records", ends)
    if finished:
        violation(last.processed == AFTER, "I3", "processed", last.processed)
        _clean(store, line)
    say("line", [timelines.number, last.id])


def _clean(store: LocalStore, line: list[Any]) -> None:
    """Nothing is left of the commits that it abandoned."""
    kept = {name for commit in line for name in files_of(commit)}
    numbered = ("commits", "commits-1", "plans", "plans-1", "attempts", "attempts-1")
    objects = tuple(f"/{folder}/" for folder in numbered)
    found = {
        name
        for name in store.list(f"{MODULE}/{TOPOLOGY}")
        if not any(each in name for each in (*objects, "/timelines/", "/pauses/"))
    }
    violation(found == kept, "I11", "files that no commit of the line names", found ^ kept)
    tried = [plan_tried(each) for each in attempt_objects(store, MODULE, TOPOLOGY).numbers()]
    violation(max(tried, default=0) <= BACK_TO, "I11", "attempts at abandoned plans", tried)
    old = commit_objects(store, MODULE, TOPOLOGY).numbers(BACK_TO + 1)
    violation(not old, "I11", "abandoned commits", old)
