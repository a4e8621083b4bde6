"""Everything of one topology that a deployment makes before it runs: checked, bound, placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.dataflow.fragments import Fragments, fragments
from atoll.dataflow.operators import AppendTo
from atoll.dataflow.usercode import placed
from atoll.errors import DeclarationError
from atoll.microbatch.options import Options
from atoll.microbatch.tuning import Settings, effective
from atoll.storage.places import Places
from atoll.tasks.bind import bind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from atoll.cluster.engines import Engine
    from atoll.dataflow.operators import Operator
    from atoll.module import Microbatch
    from atoll.pstate.spec import PStateSpec
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


def bind_topology(
    engine: Engine,
    topology: Microbatch,
    places: Places,
    settings: Settings,
    mirrors: Mapping[str, PStateSpec],
) -> BoundTopology:
    """Check a topology in full and bind it.

    Args:
        engine: What will run it.
        topology: As declared.
        places: Where everything lies.
        settings: The options set while the module ran before.
        mirrors: The PStates of other modules that the module mirrors, by ``module.name``.

    Raises:
        DeclarationError: With the place in the user's file and what to change.
    """
    with placed(topology.place):
        topology.graph.check()
        options = effective(topology.options, settings, topology.name)
    _check_targets(topology)
    cut = fragments(topology.graph)
    schemas = engine.schemas(topology.graph)
    program = bind(topology.graph, cut, schemas, places, options.history_microbatches, mirrors)
    return BoundTopology(topology, options, cut, schemas, program)


def _check_targets(topology: Microbatch) -> None:
    """Hold that the depots appended to are those that are deployed with the topology."""
    for step in topology.graph.state_operators:
        if isinstance(step, AppendTo):
            name = step.depot.name
            if topology.module.depots.get(name) is not step.depot:
                raise DeclarationError(
                    f"append_to reaches a depot {name!r} that is not of this module",
                    hint="give what depot(...) of the very module returned that is deployed",
                    declared=step.place,
                )
