"""``append_to`` as a declaration: what it refuses, and where it stands among a topology's jobs."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import Map, agg
from atoll.steps.append_to.declare import AppendTo
from atoll.topology.jobs import cut_into_jobs

ROW = "k string, v long"


@pytest.fixture
def module():
    """A module with a depot to read and one to append to."""
    module = atoll.Module("m")
    module.depot("source", ROW)
    module.depot("target", ROW)
    return module


def _keep(row, counts):
    yield row


def test_only_a_depot_of_the_module_can_be_appended_to(module):
    """Neither a PState, nor a name, nor another module's depot; the error is on its line."""
    mb = module.microbatch("mb")
    rows = mb.source(module.depots["source"])
    counts = mb.pstate("counts", Map(str, int))
    other = atoll.Module("other").depot("target", ROW)
    with refused("append_to takes a depot", "counts"):
        rows.append_to(counts)
    with refused("append_to takes a depot", "'target'"):
        rows.append_to("target")
    with refused("belongs to module 'other'"):
        rows.append_to(other)
    assert mb.graph.targets() == {}


def test_it_ends_a_stream(module):
    """Nothing comes back: who wants the rows reads the depot."""
    mb = module.microbatch("mb")
    assert mb.source(module.depots["source"]).append_to(module.depots["target"]) is None
    assert mb.graph.targets() == {"target": module.depots["target"]}


def test_a_topology_without_states_has_one_job(module):
    """Source and append_to alone are a topology."""
    mb = module.microbatch("mb")
    rows = mb.source(module.depots["source"])
    rows.map(lambda row: row, emits=ROW).append_to(module.depots["target"])
    mb.graph.check()
    cut = cut_into_jobs(mb.graph)
    assert [[type(each) for each in job.steps] for job in cut.jobs] == [[AppendTo]]
    assert [len(chain.steps) for chain in cut.jobs[0].chains] == [1]


def test_rows_of_an_emitting_step_are_appended_by_the_next_job(module):
    """What is read from the source shares the first job with the state steps."""
    mb = module.microbatch("mb")
    counts = mb.pstate("counts", Map(str, int))
    rows = mb.source(module.depots["source"])
    rows.append_to(module.depots["target"])
    rows.aggregate(mb.pstate("sums", Map(str, int))["k"], agg.sum("v"))
    kept = rows.process(_keep, key="k", states=[counts], emits=ROW)
    kept.append_to(module.depots["target"])
    jobs = [[each.title for each in job.steps] for job in cut_into_jobs(mb.graph).jobs]
    assert jobs == [["append_to", "aggregate", "process"], ["append_to"]]
