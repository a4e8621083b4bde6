"""Binds joins whose result changes: types of what is kept, and of what comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.values.leaf import leaf_codec
from atoll.errors import DeclarationError
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar, Struct
from atoll.steps.changing_join.bound import (
    AT,
    MATCHES,
    BoundChangingJoin,
    BoundChangingSide,
)
from atoll.steps.changing_join.signed import NEW, OLD, TIMES
from atoll.steps.incremental_join.sides import SideTypes, pair_schema, sides_of

if TYPE_CHECKING:
    from atoll.engine.exchange.keyed import KeyElement
    from atoll.engine.step import BoundStep
    from atoll.steps.changing_join.declare import ChangingJoin
    from atoll.steps.incremental_join.declare import Side
    from atoll.topology.binding import Binding
    from atoll.topology.operator import Operator

_Schemas = tuple[pa.Schema, pa.Schema]
_INT = Scalar("int")


def emitted_schema(step: ChangingJoin, rows: _Schemas) -> pa.Schema:
    """The keys by the left side's names, the old row and the new one; or the row alone.

    Raises:
        DeclarationError: When a key is not there or the keys' types differ, when a column is of
            a type that cannot be kept, or two columns would have one name.
    """
    left, _ = _sides(step, rows)
    row = row_schema(step, rows)
    if step.only_adds:
        return row
    keys = [pa.field(name, left.rows.field(name).type) for name in step.keys("left")]
    names = [each.name for each in keys]
    if len({*names, OLD, NEW}) < len(names) + len((OLD, NEW)):
        raise DeclarationError(
            f"incremental_join emits {OLD!r} and {NEW!r} beside its keys {', '.join(names)}, of "
            "which no two can have one name",
            hint="rename the key before: select(...)",
            declared=step.place,
        )
    return pa.schema([*keys, pa.field(OLD, pa.struct(row)), pa.field(NEW, pa.struct(row))])


def row_schema(step: ChangingJoin, rows: _Schemas) -> pa.Schema:
    """The columns of a row that the join has.

    Raises:
        DeclarationError: As :func:`emitted_schema`.
    """
    left, right = _sides(step, rows)
    return pair_schema(step, left, replace(right, kept=()) if step.one_sided else right)


def kept_specs(step: ChangingJoin, rows: _Schemas) -> dict[str, PStateSpec]:
    """The step's PStates, with the schemas that the types give them.

    Raises:
        DeclarationError: As :func:`emitted_schema`.
    """
    sides = _sides(step, rows)
    node: Node = Struct(
        **{
            side: Map(_INT, Map(_INT, stored_node(step, types)))
            for side, types in zip(("left", "right"), sides, strict=True)
        }
    )
    for each in reversed(_elements(step, "left", sides[0])):
        node = Map(each.kind, node)
    nodes = [node] if step.within is None else [node, Map(_INT, node)]
    return {
        state.name: pstate_spec(replace(state, node=each))
        for state, each in zip(step.states, nodes, strict=True)
    }


def stored_node(step: ChangingJoin, types: SideTypes) -> Struct:
    """A kept row, how often it is there, and how many partners it has."""
    timed = {} if step.within is None else {AT: _INT}
    return Struct(**dict(types.node.fields), **timed, **{TIMES: _INT, MATCHES: _INT})


def bound_join(step: ChangingJoin, binding: Binding) -> tuple[BoundStep, ...]:
    """The step as tasks run it: what takes the right side's rows, and the join.

    Raises:
        DeclarationError: As :func:`emitted_schema`.
    """
    one, two = binding.inputs(step)
    rows = (one, two)
    left, right = _sides(step, rows)
    common = {
        "title": step.title,
        "place": step.place,
        "pstate": step.states[0].name,
        "times": None if step.within is None else step.states[1].name,
    }

    def taking(operator: Operator, side: Side, types: SideTypes) -> dict[str, object]:
        node = stored_node(step, types)
        plain = Struct(**{name: kind for name, kind in node.fields if name not in (TIMES, MATCHES)})
        changes = step.changes_on(side)
        return {
            **common,
            "tag": binding.number[operator],
            "side": side,
            "elements": _elements(step, side, types),
            "rows": types.rows,
            "kept": types.kept,
            "node": plain,
            "codec": leaf_codec(plain),
            "stored": leaf_codec(node),
            "preserved": step.preserves(side),
            "unique": step.unique == side or _only_presence(step, side),
            "identity": _identity(step, side, types),
            "changes": changes is not None,
            "at": None if step.within is None else step.within.column(side),
            "keeps_ms": None if step.within is None else step.within.keeps_ms(side),
        }

    other = BoundChangingSide(**taking(step.side, "right", right))  # type: ignore[arg-type]
    join = BoundChangingJoin(
        **taking(step, "left", left),  # type: ignore[arg-type]
        right=other,
        how=step.how,
        keys=step.keys("left"),
        row=row_schema(step, rows),
        emitted=binding.schemas[step],
        within=step.within,
        clock=step.clock,
    )
    return other, join


def _sides(step: ChangingJoin, rows: _Schemas) -> tuple[SideTypes, SideTypes]:
    left_out: tuple[str, ...] = (TIMES,)
    if step.one_sided:
        left_out = tuple(rows[1].names)
    elif not step.preserves("right"):
        left_out = (TIMES, *step.names)
    return sides_of(step, rows, ((TIMES,), left_out))


def _elements(step: ChangingJoin, side: Side, types: SideTypes) -> tuple[KeyElement, ...]:
    """The keys; a null equals nothing, but a row that has one may come out alone."""
    return tuple(
        replace(each, kind=replace(each.kind, optional=True), skips_null=not step.preserves(side))
        for each in types.elements
    )


def _only_presence(step: ChangingJoin, side: Side) -> bool:
    """Whether one row of a key says as much as all: none ever goes, and none comes out."""
    return side == "right" and step.one_sided and step.right is None and step.within is None


def _identity(step: ChangingJoin, side: Side, types: SideTypes) -> tuple[str, ...]:
    """The columns by which a changed row is the same one; none: by all of them."""
    changes = step.changes_on(side)
    if changes is None or not set(changes.keys) <= set(types.kept):
        return ()
    return () if changes.inside else changes.keys
