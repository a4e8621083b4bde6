"""What must hold among the operators of a whole topology."""

from __future__ import annotations

import pytest
from mistakes import refused

import atoll
from atoll import agg, start
from atoll.errors import DeclarationError


@pytest.fixture
def module():
    """A module with one depot."""
    made = atoll.Module("shop")
    made.depot("orders", "user string")
    return made


def test_a_topology_needs_a_source(module):
    """Else it would never run."""
    mb = module.microbatch("mb")
    mb.pstate("total", int)
    with pytest.raises(DeclarationError, match="has no source") as caught:
        mb.graph.check()
    assert "source(depot)" in caught.value.hint


def test_one_start_per_depot(module):
    """Two sources of one depot begin at one place; end() is what None means."""
    orders = module.depots["orders"]
    mb = module.microbatch("mb")
    mb.source(orders)
    mb.source(orders, start_from=start.end())
    mb.graph.check()
    other = module.microbatch("other")
    other.source(orders, start_from=start.beginning())
    other.source(orders, start_from=start.beginning())
    other.graph.check()
    with refused("twice, from different starts", "same start_from", lines=2):
        other.source(orders, start_from=start.ago(3, "hours"))
        other.graph.check()


def test_the_graph_knows_its_parts(module):
    """Sources, depots, state steps and the writers of a PState, in declared order."""
    mb = module.microbatch("mb")
    total = mb.pstate("total", int)
    copy = mb.pstate("copy", int)
    source = mb.source(module.depots["orders"])
    source.aggregate(total, agg.count())
    source.process(lambda row, a, b: None, states=[total, copy])
    total.changes()
    graph = mb.graph
    assert [type(each).__name__ for each in graph.state_operators] == [
        "Aggregate", "Process", "Changes",
    ]  # fmt: skip
    assert graph.writers(total) == graph.state_operators[:2]
    assert graph.writers(copy) == graph.state_operators[1:2]
    assert list(graph.depots()) == ["orders"]
