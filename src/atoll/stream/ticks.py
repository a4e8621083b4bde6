"""Declares a topology's reading of ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.stream.stream import Stream, stream_of
from atoll.topology.flow import after
from atoll.topology.sources import Tick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from atoll.topology.declared import TickDeclaration
    from atoll.topology.graph import Graph


def ticking(
    graph: Graph,
    ticks: Mapping[str, TickDeclaration],
    tick: TickDeclaration,
    start_from: object,
    place: str,
) -> Stream:
    """The stream of a tick.

    Args:
        graph: The topology's.
        ticks: Those of its module.
        tick: Which one to read.
        start_from: None: a tick begins when it is deployed.
        place: Where the user said so.

    Raises:
        DeclarationError: When it is another module's, or a start is given.
    """
    if ticks.get(tick.name) is not tick:
        raise DeclarationError(
            f"tick {tick.name!r} belongs to module {tick.module!r}",
            hint=f"declare it in module {graph.module!r}",
            declared=place,
        )
    if start_from is not None:
        raise DeclarationError(
            f"tick {tick.name!r} cannot be read from {start_from!r}",
            hint="leave start_from out: its first tick is the first after the deployment",
            declared=place,
        )
    return stream_of(after(graph, Tick((), place, tick)))
