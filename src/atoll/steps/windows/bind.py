"""Binds ``aggregate_windows``: the schema of its PStates is found from the types that reach it.

So a deployed step fixes what its PStates hold, as a user's declaration does for those of users.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.codec.values.leaf import LeafCodec, leaf_codec
from atoll.engine.exchange.keyed import KeyElement
from atoll.errors import DeclarationError
from atoll.pstate.spec import Position, PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar, Set, Struct
from atoll.steps.folding.fields import bound_field, key_kind, typed_field
from atoll.steps.folding.step import FoldedField
from atoll.steps.windows.bound import BoundWindows
from atoll.steps.windows.window import WINDOW_END, WINDOW_START
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.steps.folding.fields import TypedField
    from atoll.steps.windows.declare import WindowAgg
    from atoll.topology.binding import StepName
    from atoll.topology.declared import PStateDeclaration


@dataclass(frozen=True)
class _Shape:
    """What a step keeps: its keys, the times of its windows, and one state per entry."""

    keys: tuple[KeyElement, ...]
    times: tuple[KeyElement, KeyElement]
    """End and start."""
    typed: tuple[TypedField, ...]
    node: Node
    codec: LeafCodec


def window_schema(step: WindowAgg, rows: pa.Schema) -> pa.Schema:
    """The keys' columns, start and end of the window, then one column per aggregate.

    Raises:
        DeclarationError: When a column is not there, or cannot be a key or be aggregated.
    """
    shape = _shape(step, rows)
    names = [each.column for each in shape.keys] + [WINDOW_START, WINDOW_END]
    kept = [rows.field(name).remove_metadata() for name in names]
    made = [pa.field(layout.name, layout.value_arrow_type) for layout in shape.codec.fields]
    return pa.schema([*kept, *made])


def window_specs(step: WindowAgg, rows: pa.Schema) -> dict[str, PStateSpec]:
    """The step's PStates, with the schema that the types give them.

    Raises:
        DeclarationError: As :func:`window_schema`.
    """
    shape = _shape(step, rows)
    ends = (*shape.times, *shape.keys)
    if len(step.states) == 1:
        (windows,) = step.states
        return {windows.name: _spec(windows, ends, shape)}
    index, sessions = step.states
    entries = (*shape.keys, shape.times[1], shape.times[0])
    return {
        index.name: _spec(index, ends, None),
        sessions.name: _spec(sessions, entries, shape),
    }


def bound_windows(step: WindowAgg, name: StepName, rows: pa.Schema) -> BoundWindows:
    """The step as tasks run it.

    Raises:
        DeclarationError: As :func:`window_schema`.
    """
    shape = _shape(step, rows)
    fields: list[FoldedField] = []
    start = 0
    with placed(step.place):
        for each, layout in zip(shape.typed, shape.codec.fields, strict=True):
            stop = start + len(layout.columns)
            fields.append(bound_field(each, start, stop))
            start = stop
    sessions = step.states[1].name if len(step.states) > 1 else None
    return BoundWindows(
        *name,
        (*shape.times, *shape.keys),
        tuple(fields),
        step.states[0].name,
        shape.codec,
        None,
        sessions,
        step.clock,
        step.lateness_ms,
        window_schema(step, rows),
    )


def _shape(step: WindowAgg, rows: pa.Schema) -> _Shape:
    with placed(step.place):
        keys = tuple(_element(rows, name) for name in step.keys)
        end, start = (_element(rows, name) for name in (WINDOW_END, WINDOW_START))
        typed = tuple(typed_field(each, rows) for each in step.fields)
        words: dict[str, str] = {}
        for each in typed:
            found = each.declared.aggregator.finishers(each.node, each.kinds)
            if "" in found:
                words[str(each.declared.name)] = found[""]
        node = Struct(**{str(each.declared.name): each.node for each in typed})
        codec = leaf_codec(node, words)
    return _Shape(keys, (end, start), typed, node, codec)


def _element(rows: pa.Schema, name: str) -> KeyElement:
    if name not in rows.names:
        raise DeclarationError(
            f"aggregate_windows uses the column {name!r}, which the rows before it do not have",
            hint=f"they have {', '.join(rows.names)}",
        )
    kind = key_kind(rows.field(name))
    if name in (WINDOW_START, WINDOW_END):
        kind = Scalar(kind.kind)
    return KeyElement(name, None, kind)


def _spec(
    declared: PStateDeclaration, elements: Sequence[KeyElement], shape: _Shape | None
) -> PStateSpec:
    """A PState whose entries have these elements; without a shape they are all there is."""
    node: Node
    if shape is None:
        node, rest = Set(elements[-1].kind), elements[:-1]
    else:
        node, rest = shape.node, elements
    for each in reversed(rest):
        node = Map(each.kind, node)
    codecs: dict[Position, LeafCodec] = {} if shape is None else {(): shape.codec}
    return pstate_spec(replace(declared, node=node), codecs)
