"""The scaling tests of RisingWave, made again here: what they change, and with their numbers.

Streams of auctions and recovery are here, all the others in ``test_scaling_cases.py``. Unless a
test says otherwise its cluster is theirs: three workers of two parallel units, 0 to 5. What they
sleep for is waited for here, and results are compared with a plain fold of the records, not only
with the numbers of the list. ``make soak`` runs the streams with their 100,000 events, each query
in all three random tests, and the rounds of kills for every query.

======================================  ==========================================================
their test                              here
======================================  ==========================================================
plan: resize_normal                     emptying_two_of_three_workers
plan: resize_single                     a_singleton_leaves_its_worker
plan: resize_single_failed              two_changes_of_one_group
plan: resize_no_shuffle                 a_change_of_any_of_eight
schedulability: cordon_normal           a_new_topology_on_what_is_not_cordoned
schedulability: cordon_no_shuffle       a_new_step_on_old_state: granted, see there
no_shuffle: delta join, lookup fails    a_join_through_five_changes
no_shuffle: shared CTE, chain, resolve  a_stream_that_two_steps_share
cascade: simple, diamond                a_cascade, a_diamond
singleton_migration                     singletons_move_twice
dynamic_filter                          a_filter_by_a_maximum
table; schema change after scale        a_table_and_a_view_made_later
sink: append-only, debezium             rows_for_a_depot_keep_their_order
sink scale + random kills               test_reschedules.py (``alerts``), killed there
nexmark_source                          three_sources_at_random
nexmark_q4: four kinds, cascade         q4_by_kind_of_fragment
nexmark_q4: cache_invalidation          six_one_six_one
nexmark_chaos: single, multiple         one_fragment_twice, many_fragments_twice
streaming_parallelism                   parallelism_of_a_topology
auto: passive_online_offline            workers_lost_and_back
auto: active_online                     a_worker_that_joins
auto: fixed, control off, custom        fixed_spreads_and_custom_stays
auto: parallelism over vnodes           no_more_units_than_vnodes
auto: exceeds_cores                     more_than_there_are
auto: isolation                         others_go_on
auto: shared_source                     sources_four_three_seven
auto: background_ddl, offline           while_a_new_topology_catches_up
auto: log store                         ten_six_ten
recovery (five rounds of killed nodes)  rounds_of_lost_workers, rounds_of_kills
======================================  ==========================================================

Left out: resource groups, a parallelism of a single fragment (``alter_fragment``) and one for the
time of a backfill, as Atoll has none of the three: a policy is a topology's, and a topology that
catches up is like any other. Queries that emit when a window closes, as there are no watermarks.
The loss of one of several control planes, as a module has one. ``nexmark_q4`` with an expected
result in numbers, as the stream is made by another generator. A fixed parallelism above what can
be had is not refused here but cut to it.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from auction_queries import QUERIES, auctions, expected, query_module, result
from chaos import entries, move, move_all, random_changes, until
from harness import replay, report, seed, soaking, volume, zygote

from atoll import Map, Module, agg

EVENTS = volume(ci=1_000, soak=100_000)
KILLED_EVENTS = volume(ci=1_000, soak=10_000)
KILLED_QUERIES = sorted(QUERIES) if soaking() else ["q4"]
PARTS = 4
AGAIN = replay("test_scaling_chaos.py")


def _turn(number: int) -> list[str]:
    """The queries of a random test: all in a soak, else each query in one of the three."""
    return list(QUERIES) if soaking() else list(QUERIES)[number::3]


# Nexmark ------------------------------------------------------------------------------------------


def test_three_sources_at_random(six):
    """Persons, auctions and bids, each read by a topology: no event lost, none twice."""
    rng = random.Random(seed())
    stream = auctions(EVENTS)
    module = Module("sources")
    for name in stream.by_depot():
        depot = module.depot(name, "n long", partitions=2)
        mb = module.microbatch(name, options={"depot.microbatch.max.records": EVENTS // 50})
        mb.source(depot).aggregate(mb.pstate(f"{name}_seen", Map(int, int))["n"], agg.count())
    app = six.deploy(module)
    for part in stream.parts(PARTS):
        for name, rows in part.by_depot().items():
            app.depot(name).append([{"n": row["n"]} for row in rows])
        chosen = [each for each in app.cluster.info().roots() if each.kind == "source"]
        assert len(chosen) == 3
        move_all(app, random_changes(rng, app, chosen))
    for name, rows in stream.by_depot().items():
        app.topology(name).wait_processed(len(rows))
        assert entries(app, f"{name}_seen") == dict.fromkeys(range(len(rows)), 1), AGAIN


class _Run:
    """A query that is fed its stream part by part, and changed while it has work."""

    def __init__(self, cluster: Any, query: str) -> None:
        self.query = query
        self.stream = auctions(EVENTS)
        self.final = expected(query, self.stream)
        self.app = cluster.deploy(query_module(query, max(1, EVENTS // 50)))
        self.fed = 0

    def feed(self) -> None:
        """Append the next part."""
        for name, rows in self.stream.parts(PARTS)[self.fed].by_depot().items():
            self.app.depot(name).append(rows)
        self.fed += 1

    def check(self) -> None:
        """Wait for what was fed; the result is that of a fold of just this."""
        fed = self.stream.first(self.fed, PARTS)
        self.app.topology(self.query).wait_processed(fed.count, 600)
        found = result(self.app, self.final)
        assert found == expected(self.query, fed), f"{self.query} after part {self.fed}; {AGAIN}"
        assert (found == self.final) == (self.fed == PARTS), "each part must show in the result"

    def through(self, *changes: Callable[[], Any]) -> None:
        """All parts, with these changes from the second on; compared before and after each.

        The topology pauses while a part is appended, so that it has work when the change begins.
        """
        topology = self.app.topology(self.query)
        self.feed()
        for change in changes:
            self.check()
            topology.pause()
            self.feed()
            assert topology.status()["processed"] < self.stream.first(self.fed, PARTS).count
            topology.resume()
            change()
        while self.fed < PARTS:
            self.feed()
        self.check()


def _q4(cluster: Any, *plans: dict[str, str]) -> None:
    run = _Run(cluster, "q4")
    run.through(*(partial(move, run.app, plan) for plan in plans))


Q4_KINDS = {
    "materialize_agg": ({"aggregate q4": "-[0,1]"}, {"aggregate q4": "-[2,3]+[0,1]"}),
    "source": ({"source": "-[0,1]"}, {"source": "-[2,3]+[0,1]"}),
    "agg_join": ({"process opened": "-[0,1]"}, {"process opened": "-[2,3]+[0,1]"}),
    "cascade": (
        {"aggregate q4": "-[0,1]", "process opened": "-[0,2,4]"},
        {"aggregate q4": "-[2,4]+[0,1]", "process opened": "-[3]+[0,4]"},
    ),
}


@pytest.mark.parametrize("kind", Q4_KINDS)
def test_q4_by_kind_of_fragment(six, kind):
    """Two changes of one kind of fragment, or of two kinds at once, while events come."""
    _q4(six, *Q4_KINDS[kind])


def test_six_one_six_one(six):
    """Five groups, all on one unit, spread, and all on that unit again: nothing old is served.

    What an actor knew of a vnode before it lost it must not count when it gets it back.
    """
    alone, spread = {"aggregate q4": "-[1,2,3,4,5]"}, {"aggregate q4": "+[1,2,3,4,5]"}
    _q4(six, alone, spread, alone)


@pytest.mark.parametrize("query", _turn(0))
def test_one_fragment_twice(six, query):
    """A random one, perhaps a step that follows: resolved, its root moves."""
    rng = random.Random(f"{seed()} {query} one")
    run = _Run(six, query)
    chosen = rng.choice(run.app.cluster.info().fragments).id

    def change() -> None:
        found = run.app.cluster.info().fragment(chosen)
        move_all(run.app, random_changes(rng, run.app, [found]), resolve=True)

    run.through(change, change)


@pytest.mark.parametrize("query", _turn(1))
def test_many_fragments_twice(six, query):
    """A random part of them at once, and another part later."""
    rng = random.Random(f"{seed()} {query} many")
    run = _Run(six, query)

    def change() -> None:
        roots = run.app.cluster.info().roots()
        chosen = rng.sample(roots, rng.randint(2, len(roots)))
        move_all(run.app, random_changes(rng, run.app, chosen))

    run.through(change, change)


# Recovery -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", _turn(2))
def test_rounds_of_lost_workers(six, query):
    """Five rounds of losing any of the three; one in ten comes back a round later."""
    rng = random.Random(f"{seed()} {query} lost")
    run = _Run(six, query)
    names = ["local", "w1", "w2"]
    gone: set[str] = set()

    def round_() -> None:
        lost = [each for each in names if each not in gone and rng.random() < 0.5]
        for each in lost:
            six.lose_worker(each)
        late = {each for each in lost if rng.random() < 0.1}
        for each in gone | set(lost) - late:
            six.add_worker(each, 2)
        gone.clear()
        gone.update(late)

    def rounds(count: int) -> None:
        for _ in range(count):
            round_()

    run.through(partial(rounds, 3), partial(rounds, 2))
    for each in gone:
        six.add_worker(each, 2)
    assert len(run.app.cluster.info().live_units()) == 6


@pytest.mark.slow
@pytest.mark.parametrize("query", KILLED_QUERIES)
def test_rounds_of_kills(folder, query):
    """Five lives that are rescheduled all the time and killed at any instant, then one more."""
    began = time.monotonic()
    rng = random.Random(f"{seed()} {query} killed")
    about = f"{query}; {AGAIN}"
    moved = 0
    given = {"root": str(folder / "root"), "query": query, "events": KILLED_EVENTS}
    with zygote("chaos") as lives:
        first = lives.run("chaos:live_query", **given, seed=0, to_the_end=False)
        first.expect(killed=False, about=about)
        for number in range(5):
            used = rng.randrange(10**9)
            life = lives.start("chaos:live_query", **given, seed=used, to_the_end=False)
            wanted = rng.randint(1, 4)
            until(lambda: _moved(life) >= wanted or "Error" in life.errors(), about)  # noqa: B023
            life.signal(signal.SIGKILL)
            moved += len(life.wait().expect(killed=True, about=about).said("moved"))
            if number % 2:
                shutil.rmtree(folder / "root" / "local", ignore_errors=True)
        last = lives.run("chaos:live_query", 600.0, **given, seed=5, to_the_end=True)
        last.expect(killed=False, about=about)
    final = json.loads(last.said("final")[0])
    assert final == expected(query, auctions(KILLED_EVENTS)), about
    report(f"scaling kills {query}", 5, 0, began, moved=moved + len(last.said("moved")))


def _moved(life: Any) -> int:
    return sum(line.startswith("moved ") for line in life.output().splitlines())
