"""The cut of a topology into jobs and chains."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import List, Map, agg
from atoll.steps.columns.union import Union
from atoll.steps.columns.where import Where
from atoll.steps.rows.flat_map import FlatMap
from atoll.steps.rows.map import Map as MapStep
from atoll.topology.jobs import cut_into_jobs
from atoll.topology.sources import Source

ROW = "id string, src long, dst long, amount long"


@pytest.fixture
def mb():
    """A topology over transfers."""
    module = atoll.Module("bank")
    module.depot("transfers", ROW)
    return module.microbatch("mb")


@pytest.fixture
def transfers(mb):
    """The stream of the depot."""
    return mb.source(mb.module.depots["transfers"])


def _jobs(mb):
    return [[type(each).__name__ for each in job.steps] for job in cut_into_jobs(mb.graph).jobs]


def _both(row, state):
    yield row


def test_bank_transfer_is_two_jobs(mb, transfers):
    """The second key's rows wait for the first key's winners."""
    funds = mb.pstate("funds", Map(int, int))
    transfers.process(_both, key="src", states=[funds], emits=ROW).process(
        _both, key="dst", states=[funds]
    )
    cut = cut_into_jobs(mb.graph)
    assert _jobs(mb) == [["Process"], ["Process"]]
    assert cut.last_writing_job("funds") == 1
    assert cut.last_writing_job("other") == -1
    assert cut.jobs[1].chains[0].origin is cut.jobs[0].steps[0]


def test_several_pstates_from_one_source_share_a_job(mb, transfers):
    """And so do several sources into one PState."""
    sent, received = mb.pstate("sent", Map(int, int)), mb.pstate("received", Map(int, int))
    transfers.aggregate(sent["src"], agg.sum("amount"))
    transfers.aggregate(received["dst"], agg.sum("amount"))
    again = mb.source(mb.module.depots["transfers"])
    again.where("amount > 0").aggregate(sent["src"], agg.sum("amount"))
    assert _jobs(mb) == [["Aggregate", "Aggregate", "Aggregate"]]


def test_changes_come_after_the_last_writer(mb, transfers):
    """Also when that one is in a later job, and although they were declared before it."""
    funds = mb.pstate("funds", Map(int, int))
    seen = mb.pstate("seen", List(int))
    changes = funds.changes("user")
    changes.aggregate(seen, agg.collect_list("new"))
    transfers.aggregate(funds["src"], agg.sum("amount"))
    assert _jobs(mb) == [["Changes", "Aggregate"], ["Aggregate"]]
    transfers.process(_both, key="src", states=[funds], emits=ROW).process(
        _both, key="dst", states=[funds]
    )
    assert _jobs(mb) == [["Aggregate", "Process"], ["Changes", "Process"], ["Aggregate"]]
    assert cut_into_jobs(mb.graph).last_writing_job("funds") == 1


def test_lookups_are_a_job_of_their_own(mb, transfers):
    """What follows a lookup runs in the next job."""
    funds = mb.pstate("funds", Map(int, int))
    transfers.lookup(funds["src"], "before").aggregate(funds["src"], agg.sum("amount"))
    assert _jobs(mb) == [["Lookup"], ["Aggregate"]]


def test_changes_that_lead_back_are_refused(mb, transfers):
    """Directly and over another PState."""
    one, two = mb.pstate("one", Map(int, int)), mb.pstate("two", Map(int, int))
    transfers.aggregate(one["src"], agg.count())
    with refused("wait for each other's changes", "cannot lead back", lines=4):
        one.changes("k").aggregate(two["k"], agg.count())
        cut_into_jobs(mb.graph)
        two.changes("k").aggregate(one["k"], agg.count())
        cut_into_jobs(mb.graph)


def test_a_pstate_that_nobody_writes_never_changes(mb, transfers):
    """Its changes are a job without rows, no mistake."""
    idle = mb.pstate("idle", Map(int, int))
    total = mb.pstate("total", int)
    transfers.aggregate(total, agg.count())
    idle.changes("k").aggregate(total, agg.sum("new"))
    assert _jobs(mb) == [["Aggregate", "Changes"], ["Aggregate"]]


def test_chains_run_from_where_rows_enter_python(mb, transfers):
    """Python steps are fused up to the last column step; unions branch them."""
    total = mb.pstate("total", int)
    mapped = transfers.where("amount > 0").map(lambda row: row, emits=ROW)
    other = transfers.map(lambda row: row, emits=ROW).flat_map(lambda row: [row], emits=ROW)
    mapped.union(other).aggregate(total, agg.count())
    chains = cut_into_jobs(mb.graph).jobs[0].chains
    assert [type(chain.origin) for chain in chains] == [Where, Source]
    assert [[type(step) for step in chain.steps] for chain in chains] == [
        [MapStep, Union],
        [MapStep, FlatMap, Union],
    ]


def test_numbers_are_the_order_of_declaration(mb, transfers):
    """So that every process cuts the same topology alike."""
    total = mb.pstate("total", int)
    transfers.aggregate(total, agg.count())
    number = cut_into_jobs(mb.graph).number
    assert [number[each] for each in mb.graph.operators] == [0, 1]
