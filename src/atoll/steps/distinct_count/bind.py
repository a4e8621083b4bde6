"""What ``agg.count_distinct`` keeps, and its first half as tasks run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.arrow_types import arrow_type
from atoll.codec.values.leaf import leaf_codec
from atoll.engine.binding.keys import column_type, key_element
from atoll.engine.exchange.keyed import KeyElement
from atoll.pstate.spec import PStateSpec, pstate_spec
from atoll.schema import Map, Node, Scalar
from atoll.steps.folding.fields import key_kind
from atoll.steps.folding.step import FoldedField, StoringStep
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from atoll.engine.step import Work
    from atoll.steps.distinct_count.declare import FirstSeen
    from atoll.topology.binding import StepName
    from atoll.topology.operator import Makes

_FLAGS = Scalar("int")


@dataclass(frozen=True)
class BoundFirstSeen(StoringStep):
    """Merge flags into the entries of values and keys, and emit those that were not set."""

    emitted: pa.Schema

    gives: ClassVar[Makes] = "at most one"

    @property
    def emits(self) -> pa.Schema:
        """A row per key and new value."""
        return self.emitted

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Merge the rows."""
        from atoll.steps.distinct_count.run import first_seen

        found = first_seen(self, rows, lambda vnode: work.writer(self.pstate, vnode), work.refused)
        work.emit(self.tag, found)


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


def bound_first_seen(step: FirstSeen, name: StepName, rows: pa.Schema) -> BoundFirstSeen:
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
    return BoundFirstSeen(
        *name,
        _elements(step, rows),
        (FoldedField(step.flags, _FLAGS, step.conditions, 0, 1),),
        step.state.name,
        leaf_codec(_FLAGS),
        None,
        first_seen_schema(step, rows),
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
