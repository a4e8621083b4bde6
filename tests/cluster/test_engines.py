"""Which engine runs a topology, and what is remembered of it."""

from __future__ import annotations

import gc

import atoll
from atoll.cluster.engines import AutoEngine
from atoll.steps.columns.schemas import schemas_of


class Spark:
    """In place of Spark: knows no columns."""

    def schemas(self, graph):
        """Those of the sources alone."""
        return schemas_of(graph, lambda _step, inputs: inputs[0])


def declared():
    """The graph of a topology that only Spark can run."""
    module = atoll.Module("m")
    rows = module.microbatch("mb").source(module.depot("d", "k string, v long"))
    rows.where("rand() < 0.5")
    return rows.graph


def test_of_topologies_that_are_planned_only_nothing_is_kept():
    """A service plans as often as it is asked to, with a new graph each time."""
    engine = AutoEngine(Spark())
    running = declared()
    for graph in (running, declared(), declared()):
        engine.schemas(graph)
    del graph
    gc.collect()
    assert list(engine._on_spark) == [running]
