"""Binds the PStates of a topology to types: what they keep follows from what is folded into them.

The specs of all topologies of a module are made before any program is: a query that one topology
asks may read another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.aggregates.base import Aggregator
from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.codec.values.opaque import PACKING
from atoll.engine.binding.keys import column_type
from atoll.errors import DeclarationError
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Set, Struct
from atoll.steps.aggregate.declare import Aggregate
from atoll.steps.distinct_count.bind import first_seen_spec
from atoll.steps.distinct_count.declare import FirstSeen
from atoll.steps.incremental_join.bind import join_spec
from atoll.steps.incremental_join.declare import IncrementalJoin
from atoll.steps.process.declare import Process
from atoll.steps.windows.bind import window_specs
from atoll.steps.windows.declare import WindowAgg
from atoll.topology.declared import PStateDeclaration, Target
from atoll.topology.graph import Graph
from atoll.topology.operator import Operator
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from atoll.steps.aggregate.declare import AggregateField

__all__ = ["BoundPStates", "Schemas", "bind_pstates", "input_types", "position_of"]

Schemas = Mapping[Operator, pa.Schema]
_Position = tuple[str, ...]
"""The struct fields on the way to a leaf: which leaf of a PState it is."""


@dataclass(frozen=True)
class BoundPStates:
    """The PStates of a topology, and the aggregates that are folded into them, ready to run."""

    graph: Graph
    specs: dict[str, PStateSpec]
    aggregators: dict[tuple[Aggregate, str | None], Aggregator]
    codecs: dict[str, dict[_Position, LeafCodec]]

    def codec(self, target: Target) -> LeafCodec:
        """The codec of the leaf at a target."""
        known = self.codecs.get(target.pstate.name, {}).get(position_of(target))
        return known or leaf_codec(target.node)


def bind_pstates(graph: Graph, schemas: Schemas) -> BoundPStates:
    """The PStates that a topology writes.

    Args:
        graph: The topology.
        schemas: The columns after every operator.

    Raises:
        DeclarationError: When an aggregate does not fit the types that reach it.
    """
    aggregators, codecs = _bind_aggregates(graph, schemas)
    specs: dict[str, PStateSpec] = {}
    for step in graph.state_operators:
        if isinstance(step, WindowAgg):
            specs.update(window_specs(step, schemas[step.inputs[0]]))
        if isinstance(step, FirstSeen):
            specs[step.state.name] = first_seen_spec(step, schemas[step.inputs[0]])
        if isinstance(step, IncrementalJoin):
            left, right = step.inputs
            specs[step.state.name] = join_spec(step, (schemas[left], schemas[right]))
    for name, declared in graph.pstates.items():
        if name in specs:
            continue
        with placed(declared.place):
            specs[name] = pstate_spec(declared, codecs.get(name, {}))
    return BoundPStates(graph, specs, aggregators, codecs)


def _bind_aggregates(
    graph: Graph, schemas: Schemas
) -> tuple[dict[tuple[Aggregate, str | None], Aggregator], dict[str, dict[_Position, LeafCodec]]]:
    aggregators: dict[tuple[Aggregate, str | None], Aggregator] = {}
    finishers: dict[tuple[PStateDeclaration, _Position], dict[str, str]] = {}
    nodes: dict[tuple[PStateDeclaration, _Position], Target] = {}
    for step in graph.state_operators:
        if not isinstance(step, Aggregate) or isinstance(step.target.node, Set) or step.deletes:
            continue
        leaf = (step.target.pstate, position_of(step.target))
        nodes[leaf] = step.target
        known = finishers.setdefault(leaf, {})
        for each in step.fields:
            aggregator, finish = _bind_field(step, each, schemas[step.inputs[0]])
            aggregators[step, each.name] = aggregator
            name = each.name or ""
            if known.setdefault(name, finish) != finish:
                raise DeclarationError(
                    f"{step.target.text} is folded by agg.{each.aggregator} here, and elsewhere by "
                    "an aggregate that keeps something else",
                    hint="give each aggregate a place of its own",
                    declared=step.place,
                )
    codecs: dict[str, dict[_Position, LeafCodec]] = {}
    for (pstate, position), words in finishers.items():
        kept = {name: word for name, word in words.items() if word != "plain"}
        codec = leaf_codec(nodes[pstate, position].node, kept)
        codecs.setdefault(pstate.name, {})[position] = codec
        _check_other_writers(graph, pstate, codec)
    return aggregators, codecs


def _bind_field(step: Aggregate, each: AggregateField, rows: pa.Schema) -> tuple[Aggregator, str]:
    node = step.target.node
    if each.name is not None:
        assert isinstance(node, Struct)
        node = node.get(each.name)  # type: ignore[assignment]  # checked when declared
    types = input_types(step, each, rows)
    try:
        aggregator = each.aggregator.bind(node, types, PACKING)
        finish = each.aggregator.finishers(node, types).get("", "plain")
    except DeclarationError as error:
        place = step.target.text + ("" if each.name is None else f".{each.name}")
        raise DeclarationError(
            f"{place}: {error.message}",
            hint=error.hint,
            **{**error.context, "declared": step.place},
        ) from None
    return aggregator, finish


def input_types(step: Aggregate, each: AggregateField, rows: pa.Schema) -> list[pa.DataType]:
    """The types of what an aggregate takes of each row."""
    return [
        pa.bool_() if column is None else column_type(rows, column, step) for column in each.columns
    ]


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
        if codec.hidden and isinstance(step, Process):
            raise DeclarationError(
                f"process cannot write {pstate.name!r}: its aggregate keeps more than the value",
                hint="use a PState of its own for each",
                declared=step.place,
            )


def position_of(target: Target) -> _Position:
    """Which leaf of its PState a target is."""
    return tuple(part.text for part in target.parts if not part.is_key)
