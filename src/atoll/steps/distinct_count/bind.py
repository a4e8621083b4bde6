"""Finds the values that a key has not had before, and what a topology must know for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from atoll.aggregates.kernels.flags import new_flags
from atoll.arrow_types import arrow_type
from atoll.codec.keys.decode import decode_columns
from atoll.codec.values.leaf import leaf_codec
from atoll.engine.binding.keys import column_type, key_element
from atoll.engine.program import AggregateTerminal, FoldedField, KeyElement
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar
from atoll.steps.aggregate import run as aggregate
from atoll.steps.fold.bind import key_kind
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from atoll.steps.aggregate.run import SessionOf
    from atoll.steps.distinct_count.declare import FirstSeen
    from atoll.topology.usercode import Rejects

__all__ = [
    "FirstSeenTerminal",
    "first_seen",
    "first_seen_schema",
    "first_seen_spec",
    "first_seen_terminal",
]

_FLAGS = Scalar("int")


@dataclass(frozen=True)
class FirstSeenTerminal(AggregateTerminal):
    """Merge flags into the entries of values and keys, and emit those that were not set."""

    emitted: pa.Schema = pa.schema([])  # noqa: RUF009 - immutable


def first_seen(
    terminal: FirstSeenTerminal,
    tables: list[pa.Table],
    session_of: SessionOf,
    rejects: Rejects | None = None,
) -> pa.Table:
    """The keys of entries with new flags, and the flags, a column each: true, or null."""
    folded = aggregate.merged(terminal, tables, session_of, rejects)
    if not folded.keys:
        return terminal.emitted.empty_table()
    assert terminal.codec is not None
    old, new = (terminal.codec.decode_columns(each)[0] for each in (folded.olds, folded.values))
    flags = new_flags(old, new)
    rows = np.flatnonzero(flags)
    columns = decode_columns(
        [folded.keys[row] for row in rows], [each.kind for each in terminal.elements]
    )
    flags = flags[rows]
    count = len(terminal.emitted) - len(columns) + 1
    for bit in range(count):
        unset = flags >> bit & 1 == 0
        columns.append(pa.array(~unset, pa.bool_(), mask=unset))
    return pa.Table.from_arrays(columns[1:], schema=terminal.emitted)


def first_seen_schema(step: FirstSeen, rows: pa.Schema) -> pa.Schema:
    """The keys, then a column for each count.

    Raises:
        DeclarationError: When a column is not there, or cannot be a key.
    """
    _, *keys = _elements(step, rows)
    fields = [
        pa.field(step.key_name(number), arrow_type(each.kind)) for number, each in enumerate(keys)
    ]
    fields += [
        pa.field(step.new_name(number), pa.bool_()) for number, _ in enumerate(step.conditions)
    ]
    return pa.schema(fields)


def first_seen_spec(step: FirstSeen, rows: pa.Schema) -> PStateSpec:
    """The step's PState, with the schema that the types give it.

    Raises:
        DeclarationError: As :func:`first_seen_schema`.
    """
    node: Node = _FLAGS
    for each in reversed(_elements(step, rows)):
        node = Map(each.kind, node)
    return pstate_spec(replace(step.state, node=node), {})


def first_seen_terminal(
    step: FirstSeen, common: tuple[int, str, str], rows: pa.Schema
) -> FirstSeenTerminal:
    """The step as tasks run it.

    Raises:
        DeclarationError: As :func:`first_seen_schema`; when a condition is none.
    """
    with placed(step.place):
        kinds = [
            pa.bool_() if name is None else column_type(rows, name, step)
            for name in step.conditions
        ]
        step.flags.check(_FLAGS, kinds)
    return FirstSeenTerminal(
        *common,
        step.state.name,
        _elements(step, rows),
        (FoldedField(step.flags, _FLAGS, step.conditions, 0, 1),),
        leaf_codec(_FLAGS),
        None,
        emitted=first_seen_schema(step, rows),
    )


def _elements(step: FirstSeen, rows: pa.Schema) -> tuple[KeyElement, ...]:
    column_type(rows, step.value, step)
    with placed(step.place):
        found = key_kind(rows.field(step.value))
        kind = Scalar(found.kind, items=found.items)
    keys = []
    for name, part in zip(step.keys, step.parts, strict=True):
        assert part.key is not None
        keys.append(key_element(name, part.key, rows, step, skips_null=part.skips_null))
    return (KeyElement(step.value, None, kind, skips_null=True), *keys)
