"""Gets the workers ready for the next version of a module while the running one goes on.

What the first microbatch of a new version would wait for is done before the old version stops:
each worker unpacks the new program, and brings the stores up to date that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from atoll.logs import get_logger
from atoll.placement.placement import Placement, placement_of

if TYPE_CHECKING:
    from atoll.cluster.deploy.catalog import BoundTopology
    from atoll.cluster.engines import Engine
    from atoll.engine.attempt import BlockSource
    from atoll.microbatch.stepping import Stepper
    from atoll.placement.info import ClusterInfo


_log = get_logger("atoll.cluster")


def prepare_update(
    engine: Engine,
    bound: Iterable[BoundTopology],
    loops: Mapping[str, Stepper],
    depots: Mapping[str, BlockSource],
    info: ClusterInfo,
) -> None:
    """Prepare the topologies that go on; never raises, since nothing depends on it.

    Args:
        engine: What runs attempts.
        bound: The topologies of the new version.
        loops: The running topologies, by name.
        depots: What the running version reads, by name.
        info: Where it runs.
    """
    for each in bound:
        name = each.declared.name
        if name not in loops or not loops[name].published.id:
            continue
        try:
            placement = placement_of(info, name)
            if _fits(each, placement, depots):
                engine.executor(each, depots).prepare(placement, loops[name].published)
        except Exception as error:  # noqa: BLE001 - the first attempt does it then
            _log.warning("not prepared", topology=name, error=str(error))


def _fits(each: BoundTopology, placement: Placement, depots: Mapping[str, BlockSource]) -> bool:
    """Whether all that the new version needs is there already."""
    known = set(each.program.pstates) <= set(placement.mappings)
    return known and set(each.declared.graph.depots()) <= set(depots)
