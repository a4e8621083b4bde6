"""Binds ``incremental_join``: the schema of its PState is found from the types that reach it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from atoll.arrow_types import node_of
from atoll.codec.values.leaf import leaf_codec
from atoll.ddl import type_in_words
from atoll.engine.exchange.keyed import KeyElement
from atoll.errors import DeclarationError
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar, Struct
from atoll.steps.incremental_join.bound import PRESENT, BoundJoin, BoundSide
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.steps.incremental_join.declare import IncrementalJoin, Side
    from atoll.topology.binding import Binding
    from atoll.topology.operator import Operator


@dataclass(frozen=True)
class _Bound:
    """One side with its types."""

    rows: pa.Schema
    elements: tuple[KeyElement, ...]
    kept: tuple[str, ...]
    node: Struct


def join_schema(step: IncrementalJoin, rows: tuple[pa.Schema, pa.Schema]) -> pa.Schema:
    """The shared key columns, the others of the left side, then those of the right.

    Raises:
        DeclarationError: When a key is not there or the keys' types differ, when a column is of
            a type that cannot be kept, or two columns would have one name.
    """
    import pyarrow as pa

    left, right = _sides(step, rows)
    names = [*step.names, *(name for name in left.kept if name not in step.names)]
    fields = [left.rows.field(name) for name in names]
    fields += [right.rows.field(name) for name in right.kept]
    twice = sorted({each.name for each in fields if [f.name for f in fields].count(each.name) > 1})
    if twice:
        raise DeclarationError(
            f"incremental_join makes more than one column {twice[0]!r}",
            hint="rename it on one side before: select(..., "
            f'"{twice[0]} AS other_name"), or leave it out',
            declared=step.place,
        )
    return pa.schema([each.remove_metadata() for each in fields])


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

    def taking(operator: Operator, side: Side, bound: _Bound) -> dict[str, object]:
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

    other = BoundSide(**taking(step.right, "right", right))  # type: ignore[arg-type]
    own = taking(step, "left", left)
    emitted = join_schema(step, rows)
    join = BoundJoin(**own, right=other, unique=step.unique, emitted=emitted)  # type: ignore[arg-type]
    return other, join


def _sides(step: IncrementalJoin, rows: tuple[pa.Schema, pa.Schema]) -> tuple[_Bound, _Bound]:
    with placed(step.place):
        left = _side(step, "left", rows[0], ())
        right = _side(step, "right", rows[1], step.names)
        for one, other in zip(left.elements, right.elements, strict=True):
            if one.kind != other.kind:
                raise DeclarationError(
                    f"incremental_join compares {one.column!r} of the left side, "
                    f"{type_in_words(rows[0].field(str(one.column)).type)}, with "
                    f"{other.column!r} of the right, "
                    f"{type_in_words(rows[1].field(str(other.column)).type)}",
                    hint="cast one of them before",
                )
    return left, right


def _side(step: IncrementalJoin, side: Side, rows: pa.Schema, hidden: tuple[str, ...]) -> _Bound:
    elements = tuple(
        KeyElement(name, None, _key_kind(rows, name, side), skips_null=True)
        for name in step.keys(side)
    )
    kept = tuple(name for name in rows.names if name not in hidden)
    nodes: dict[str, Node] = {}
    for name in kept:
        try:
            nodes[name] = node_of(rows.field(name).type)
        except DeclarationError as error:
            raise DeclarationError(
                f"incremental_join cannot keep the column {name!r}: {error.message}",
                hint=error.hint,
            ) from None
    return _Bound(rows, elements, kept, Struct(**(nodes or {PRESENT: Scalar("bool")})))


def _key_kind(rows: pa.Schema, name: str, side: Side) -> Scalar:
    if name not in rows.names:
        raise DeclarationError(
            f"incremental_join uses the column {name!r}, which the {side} side does not have",
            hint=f"it has {', '.join(rows.names)}",
        )
    try:
        kind = node_of(rows.field(name).type)
    except DeclarationError:
        kind = None
    if not isinstance(kind, Scalar):
        raise DeclarationError(
            f"the key {name!r} is of type {type_in_words(rows.field(name).type)}, which "
            "incremental_join cannot compare",
            hint="cast it to a simple type before",
        )
    return Scalar(kind.kind)


def _kept(step: IncrementalJoin, side: Side, bound: _Bound) -> Node:
    """One row per key; or rows by microbatch and number."""
    if step.unique == side:
        return bound.node
    return Map(Scalar("int"), Map(Scalar("int"), bound.node))
