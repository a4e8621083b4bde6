"""Binds ``incremental_join``: the schema of its PState is found from the types that reach it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from atoll.codec.values.leaf import leaf_codec
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar, Struct
from atoll.steps.incremental_join.bound import BoundJoin, BoundSide
from atoll.steps.incremental_join.sides import SideTypes, pair_schema, sides_of

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.steps.incremental_join.declare import IncrementalJoin, Side
    from atoll.topology.binding import Binding
    from atoll.topology.operator import Operator


def join_schema(step: IncrementalJoin, rows: tuple[pa.Schema, pa.Schema]) -> pa.Schema:
    """The shared key columns, the others of the left side, then those of the right.

    Raises:
        DeclarationError: When a key is not there or the keys' types differ, when a column is of
            a type that cannot be kept, or two columns would have one name.
    """
    return pair_schema(step, *_sides(step, rows))


def join_spec(step: IncrementalJoin, rows: tuple[pa.Schema, pa.Schema]) -> PStateSpec:
    """The step's PState, with the schema that the types give it.

    Raises:
        DeclarationError: As :func:`join_schema`.
    """
    left, right = _sides(step, rows)
    node: Node = Struct(left=_kept(step, "left", left), right=_kept(step, "right", right))
    for each in reversed(left.elements):
        node = Map(each.kind, node)
    return pstate_spec(replace(step.state, node=node))


def bound_join(step: IncrementalJoin, binding: Binding) -> tuple[BoundStep, ...]:
    """The step as tasks run it: what takes the right side's rows, and the join.

    Raises:
        DeclarationError: As :func:`join_schema`.
    """
    one, two = binding.inputs(step)
    rows = (one, two)
    left, right = _sides(step, rows)

    def taking(operator: Operator, side: Side, bound: SideTypes) -> dict[str, object]:
        return {
            "tag": binding.number[operator],
            "title": step.title,
            "place": step.place,
            "side": side,
            "pstate": step.state.name,
            "elements": bound.elements,
            "rows": bound.rows,
            "kept": bound.kept,
            "node": bound.node,
            "codec": leaf_codec(bound.node),
        }

    other = BoundSide(**taking(step.side, "right", right))  # type: ignore[arg-type]
    own = taking(step, "left", left)
    emitted = join_schema(step, rows)
    join = BoundJoin(**own, right=other, unique=step.unique, emitted=emitted)  # type: ignore[arg-type]
    return other, join


def _kept(step: IncrementalJoin, side: Side, bound: SideTypes) -> Node:
    """One row per key; or rows by microbatch and number."""
    if step.unique == side:
        return bound.node
    return Map(Scalar("int"), Map(Scalar("int"), bound.node))


def _sides(step: IncrementalJoin, rows: tuple[pa.Schema, pa.Schema]) -> tuple[SideTypes, SideTypes]:
    return sides_of(step, rows, ((), step.names))
