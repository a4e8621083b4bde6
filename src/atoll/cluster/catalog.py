"""Everything of one topology that a deployment makes before it runs: checked, bound, placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.dataflow.fragments import Fragments, fragments
from atoll.dataflow.usercode import placed
from atoll.microbatch.options import Options
from atoll.spark.analysis import resolve
from atoll.tasks.bind import Places, bind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from atoll.dataflow.operators import Operator
    from atoll.module import Microbatch
    from atoll.tasks.program import Program

__all__ = ["BoundTopology", "bind_topology"]


@dataclass(frozen=True)
class BoundTopology:
    """A topology ready to run."""

    declared: Microbatch
    options: Options
    cut: Fragments
    schemas: dict[Operator, pa.Schema]
    program: Program


def bind_topology(session: SparkSession, topology: Microbatch, places: Places) -> BoundTopology:
    """Check a topology in full and bind it.

    Raises:
        DeclarationError: With the place in the user's file and what to change.
    """
    with placed(topology.place):
        topology.graph.check()
        options = Options().with_values(topology.options)
    cut = fragments(topology.graph)
    schemas = resolve(session, topology.graph)
    program = bind(topology.graph, cut, schemas, places, options.history_microbatches)
    return BoundTopology(topology, options, cut, schemas, program)
