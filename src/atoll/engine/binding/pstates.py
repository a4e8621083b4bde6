"""Binds the PStates of a topology to types: what they keep follows from what is folded into them.

The specs of all topologies of a module are made before any program is: a query that one topology
asks may read another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.errors import DeclarationError
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from atoll.topology.binding import Kept, Schemas
    from atoll.topology.declared import PStateDeclaration
    from atoll.topology.graph import Graph

_Position = tuple[str, ...]
"""The struct fields on the way to a leaf: which leaf of a PState it is."""


@dataclass(frozen=True)
class BoundPStates:
    """The PStates of a topology, ready to be written."""

    graph: Graph
    specs: dict[str, PStateSpec]


def bind_pstates(graph: Graph, schemas: Schemas) -> BoundPStates:
    """The PStates that a topology writes.

    Args:
        graph: The topology.
        schemas: The columns after every operator.

    Raises:
        DeclarationError: When an aggregate does not fit the types that reach it.
    """
    codecs = _codecs(graph, schemas)
    specs: dict[str, PStateSpec] = {}
    for step in graph.state_operators:
        specs.update(step.hidden_specs([schemas[each] for each in step.inputs]))
    for name, declared in graph.pstates.items():
        if name not in specs:
            with placed(declared.place):
                specs[name] = pstate_spec(declared, codecs.get(name, {}))
    return BoundPStates(graph, specs)


def _codecs(graph: Graph, schemas: Schemas) -> dict[str, dict[_Position, LeafCodec]]:
    """For each PState the codecs of the leaves that aggregates are folded into."""
    leaves: dict[tuple[PStateDeclaration, _Position], list[Kept]] = {}
    for step in graph.state_operators:
        for kept in step.keeps([schemas[each] for each in step.inputs]):
            leaf = (kept.target.pstate, kept.target.position)
            leaves.setdefault(leaf, []).append(kept)
    codecs: dict[str, dict[_Position, LeafCodec]] = {}
    for (pstate, position), all_kept in leaves.items():
        finishes: dict[str, str] = {}
        for kept in all_kept:
            if finishes.setdefault(kept.field, kept.finish) != kept.finish:
                raise DeclarationError(
                    f"{kept.target.text} is folded by agg.{kept.aggregate} here, and elsewhere by "
                    "an aggregate that keeps something else",
                    hint="give each aggregate a place of its own",
                    declared=kept.place,
                )
        hidden = {field: finish for field, finish in finishes.items() if finish != "plain"}
        codec = leaf_codec(all_kept[0].target.node, hidden)
        codecs.setdefault(pstate.name, {})[position] = codec
        _check_other_writers(graph, pstate, codec)
    return codecs


def _check_other_writers(graph: Graph, pstate: PStateDeclaration, codec: LeafCodec) -> None:
    if not codec.hidden and pstate.initial is None:
        return
    if codec.hidden and pstate.initial is not None:
        raise DeclarationError(
            f"PState {pstate.name!r} has an initial value, but its aggregate keeps more than that",
            hint="leave initial= out",
            declared=pstate.place,
        )
    for step in graph.writers(pstate):
        if codec.hidden and step.writes_values:
            raise DeclarationError(
                f"process cannot write {pstate.name!r}: its aggregate keeps more than the value",
                hint="use a PState of its own for each",
                declared=step.place,
            )
