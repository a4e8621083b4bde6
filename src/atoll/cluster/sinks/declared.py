"""The sinks of a module as it is declared, and what may become of those that are deployed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.steps.write_to.declare import sinks_of

if TYPE_CHECKING:
    from atoll.module import Module
    from atoll.steps.write_to.declare import WriteTo
    from atoll.topology.graph import Graph


def check_sinks(module: Module) -> None:
    """Hold that no two topologies give one name to a sink.

    Raises:
        DeclarationError: Naming both.
    """
    known: dict[str, str] = {}
    for topology in module.topologies.values():
        for name, step in sinks_of(topology.graph).items():
            other = known.setdefault(name, topology.name)
            if other != topology.name:
                raise DeclarationError(
                    f"sink {name!r} is declared twice",
                    hint=f"topology {other!r} has it; choose another name",
                    declared=step.place,
                )


def signature_of(step: WriteTo) -> dict[str, str]:
    """What may not change as long as a sink has its name."""
    return {**step.sink.signature, "kind": step.sink.kind, "input": step.gets}


def signatures(graph: Graph) -> dict[str, dict[str, str]]:
    """Those of a topology's sinks, by name."""
    steps = sinks_of(graph)
    return {name: signature_of(step) for name, step in steps.items()}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """What of a sink is not as it was, in words."""
    for name in sorted({*before, *now}):
        was, will = before.get(name), now.get(name)
        if was != will:
            yield f"its {name} is fixed: {was or 'none'} is deployed, {will or 'none'} declared"
