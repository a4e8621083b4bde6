"""Clusters that change under their topologies, and what the scaling tests do to them.

A module as small as can be, a way to ask for changes by the names of fragments, a gate that holds
a topology between two steps, and a life that changes without end, to be killed.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from auction_queries import QUERIES, auctions, query_module, result
from scenario import say

from atoll import LocalCluster, Map, Module, agg, path, start
from atoll.microbatch.events import Step
from atoll.placement.info import Fragment
from atoll.placement.reschedule.change import UnitChange
from atoll.placement.reschedule.plan import ReschedulePlan
from atoll.placement.reschedule.rebalance import moves_least
from atoll.placement.reschedule.text import parse_plan

__all__ = [
    "Gate",
    "entries",
    "fragment",
    "insert",
    "live_query",
    "move",
    "move_all",
    "random_changes",
    "table",
    "two_tables",
    "until",
    "workers",
]

_CAP_SECONDS = 120.0


# A small module -----------------------------------------------------------------------------------


def table(name: str = "t", **options: Any) -> tuple[Module, Any, Any]:
    """A table of numbers: a module, its topology, and the stream of what is inserted.

    ``t`` holds how often each number was inserted; ``total``, a singleton, how many there are.
    """
    module = Module("table")
    rows = module.depot("rows", "v long", partition_by="v", partitions=3)
    mb = module.microbatch(name, **options)
    stream = mb.source(rows)
    stream.aggregate(mb.pstate("t", Map(int, int))["v"], agg.count())
    stream.aggregate(mb.pstate("total", int, initial=0), agg.count())
    return module, mb, stream


def two_tables(**options: Any) -> Module:
    """The same with a topology ``second`` of its own, which counts from the beginning."""
    module, _, _ = table(**options)
    mb = module.microbatch("second")
    source = mb.source(module.depots["rows"], start_from=start.beginning())
    source.aggregate(mb.pstate("second_t", Map(int, int))["v"], agg.count())
    return module


def insert(app: Any, numbers: Any) -> int:
    """Insert them, wait until every topology has them, and say how many there are now."""
    app.depot("rows").append([{"v": each} for each in numbers])
    ends: int = sum(app.depot("rows").end_offsets())
    for name in app.topologies():
        app.topology(name).wait_processed(ends)
    return ends


def entries(app: Any, name: str) -> dict[Any, Any]:
    """All of a PState."""
    return dict(app.pstate(name).select(path.all()))


# The cluster --------------------------------------------------------------------------------------


@contextlib.contextmanager
def workers(root: Path | str, count: int = 3, units: int = 2, **more: Any) -> Iterator[Any]:
    """So many workers of so many units, inline: ``local``, then ``w1``, ``w2``, ..."""
    with LocalCluster(root, engine="inline", parallelism=units, **more) as cluster:
        for number in range(1, count):
            cluster.add_worker(f"w{number}", units)
        yield cluster


def fragment(app: Any, name: str) -> Fragment:
    """The fragment of that name, as it is now."""
    found = [each for each in app.cluster.info().fragments if each.name == name]
    assert len(found) == 1, [each.name for each in app.cluster.info().fragments]
    return found[0]


def move(app: Any, plans: Mapping[str, str], **options: Any) -> ReschedulePlan:
    """Reschedule fragments by name, each by text such as ``-[0,1]+[5]``."""
    text = ";".join(f"{fragment(app, name).id}{plan}" for name, plan in plans.items())
    return move_all(app, parse_plan(text), **options)


def move_all(app: Any, changes: Mapping[int, UnitChange], **options: Any) -> ReschedulePlan:
    """Reschedule, and check that it is even, moved the least, and is where it should be."""
    before = app.cluster.info()
    plan: ReschedulePlan = app.cluster.reschedule(changes, revision=before.revision, **options)
    for root, change in plan.changes.items():
        was, now = before.fragment(root), plan.info.fragment(root)
        assert now.units == change.apply(was.units)
        if was.kind != "source":
            counts = now.mapping.counts().values()
            assert max(counts) - min(counts) <= 1
            least = moves_least(was.mapping, change.added, change.removed)
            assert len(plan.moves[root]) == least, f"{len(plan.moves[root])} moves, not {least}"
    if not options.get("dry_run"):
        assert plan.info == app.cluster.info()
        assert all(e.owners == plan.info.fragment(e.root).owners for e in plan.info.fragments)
    return plan


def random_changes(
    rng: random.Random, app: Any, chosen: Sequence[Fragment]
) -> dict[int, UnitChange]:
    """A change of each of these, which never is one of nothing."""
    live = app.cluster.info().live_units()
    changes = {}
    for each in chosen:
        wanted = set(each.units)
        most = 1 if each.kind == "singleton" else len(live)
        while wanted == set(each.units):
            wanted = set(rng.sample(live, rng.randint(1, most)))
        added, removed = wanted - set(each.units), set(each.units) - wanted
        changes[each.id] = UnitChange(tuple(added), tuple(removed))
    return changes


def until(true: Callable[[], Any], what: str) -> Any:
    """Wait until something is true, and give it back.

    Raises:
        AssertionError: When that takes too long.
    """
    end = time.monotonic() + _CAP_SECONDS
    while not (found := true()):
        assert time.monotonic() < end, f"{what}: not within {_CAP_SECONDS:g} s"
        time.sleep(0.002)
    return found


class Gate:
    """Holds one topology where a microbatch has been processed and not yet been committed.

    Give it to a cluster as its observer. Only a gate that was closed holds anything.
    """

    def __init__(self, topology: str) -> None:
        self._thread = f"-{topology}"
        self._closed = self._held = False
        self._when: Callable[[], bool] = lambda: True
        self._changed = threading.Condition()

    def __call__(self, step: Step, microbatch: int) -> None:
        """What the cluster calls, in the topology's thread."""
        if step != Step.PROCESS or not threading.current_thread().name.endswith(self._thread):
            return
        with self._changed:
            self._held = self._closed and self._when()
            if not self._held:
                return
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: not self._closed, _CAP_SECONDS)
            self._held = False

    @contextlib.contextmanager
    def holding(
        self, start: Callable[[], Any], when: Callable[[], bool] = lambda: True
    ) -> Iterator[None]:
        """Call something in another thread; the block runs while the topology is held by it.

        Args:
            start: What brings the topology to the gate, and ends only behind it.
            when: Says in the topology's thread which microbatch to hold.

        Raises:
            AssertionError: When nothing comes to the gate.
        """
        with ThreadPoolExecutor(1) as thread:
            with self._changed:
                self._closed, self._when = True, when
            called = thread.submit(start)
            try:
                with self._changed:
                    arrived = self._changed.wait_for(lambda: self._held, _CAP_SECONDS)
                assert arrived, "nothing came to the gate"
                yield
                assert not called.done(), "what should be held has ended"
            finally:
                with self._changed:
                    self._closed = False
                    self._changed.notify_all()
            called.result(_CAP_SECONDS)


# A life that is killed ----------------------------------------------------------------------------


def live_query(root: str, query: str, events: int, seed: int, to_the_end: bool) -> None:
    """One life of a query whose records are all appended, rescheduled all the time.

    It says ``moved`` after every change, then at the end ``final``. Unless it is ``to_the_end``
    it goes on changing until it is killed. The first life only appends.
    """
    rng = random.Random(seed)
    stream = auctions(events)
    with workers(root) as cluster:
        app = cluster.deploy(query_module(query, max(1, events // 100)))
        if not sum(sum(app.depot(name).end_offsets()) for name in app.depots()):
            app.topology(query).pause()
            for name, rows in stream.by_depot().items():
                app.depot(name).append(rows)
            return
        app.topology(query).resume()
        while not to_the_end or app.topology(query).status()["processed"] < stream.count:
            roots = app.cluster.info().roots()
            chosen = rng.sample(roots, rng.randint(1, len(roots)))
            say("moved", move_all(app, random_changes(rng, app, chosen)).info.revision)
            if rng.random() < 0.3:
                cluster.lose_worker("w1")
                cluster.add_worker("w1", 2)
        say("final", result(app, QUERIES[query].fold(stream)))
