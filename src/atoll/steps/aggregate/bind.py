"""``aggregate`` as tasks run it: merge rows into entries of a PState."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from atoll.codec.values.packing import PACKING
from atoll.engine.binding.keys import column_type, elements_of
from atoll.errors import DeclarationError
from atoll.schema import Set, Struct
from atoll.steps.folding.step import FoldedField, StoringStep
from atoll.topology.binding import Kept
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from atoll.aggregates.base import Aggregator
    from atoll.engine.step import Work
    from atoll.steps.aggregate.declare import Aggregate, AggregateField
    from atoll.steps.windows.bound import BoundLiveSessions
    from atoll.topology.binding import Binding


@dataclass(frozen=True)
class BoundAggregate(StoringStep):
    """Merge rows into entries of a PState.

    ``codec`` is None when being there is all there is to an entry: it is a set's element, or the
    rows only delete. Then a field's state says whether the entry goes.
    """

    deletes: Literal["no", "entry", "all below"] = "no"
    """Whether every row deletes its entry, or the collection that it names with all its entries."""

    def values(
        self, olds: list[bytes | None], states: Sequence[pa.Array]
    ) -> Sequence[bytes | None]:
        """The entries' new values; None deletes."""
        if self.deletes == "entry":
            return [None] * len(olds)
        if self.codec is not None:
            return super().values(olds, states)
        if not self.fields:
            return [b""] * len(olds)
        return [None if removed else b"" for removed in states[0].to_pylist()]

    def run(self, work: Work, rows: list[pa.Table]) -> None:
        """Merge the rows, in their order."""
        from atoll.steps.folding.merging import delete_below, merged

        merge = delete_below if self.deletes == "all below" else merged
        merge(self, rows, lambda vnode: work.writer(self.pstate, vnode), work.refused)


def bound_aggregate(step: Aggregate, binding: Binding) -> BoundAggregate | BoundLiveSessions:
    """The step as tasks run it.

    Raises:
        DeclarationError: When a key or an aggregate does not fit the types that reach it.
    """
    rows, name = binding.rows(step), binding.name(step)
    target = step.target
    pstate = target.pstate.name
    elements = elements_of(target, step.keys, rows, step, element=_is_element(step))
    if isinstance(target.node, Set) or step.deletes:
        deletes: Literal["no", "entry", "all below"] = "no"
        if step.deletes:
            deletes = "entry" if target.node.leaf else "all below"
        return BoundAggregate(*name, elements, _presence(step, rows), pstate, None, None, deletes)
    codec = binding.specs[pstate].codec(target.position)
    fields = []
    for each in step.fields:
        start = 0
        for layout in codec.fields:
            stop = start + len(layout.columns)
            if layout.name == each.name:
                aggregator, _ = _bound_field(step, each, rows)
                fields.append(FoldedField(aggregator, layout.node, each.columns, start, stop))
            start = stop
    if step.by_session:
        from atoll.steps.windows.bound import BoundLiveSessions

        *keys, start_key, end_key = elements
        times_first = (end_key, start_key, *keys)
        return BoundLiveSessions(*name, times_first, tuple(fields), pstate, codec, None, pstate)
    initial = binding.specs[pstate].initial_bytes
    return BoundAggregate(*name, elements, tuple(fields), pstate, codec, initial)


def kept_by(step: Aggregate, rows: pa.Schema) -> tuple[Kept, ...]:
    """What the step's aggregates keep in the PState's values.

    Raises:
        DeclarationError: When one does not fit the types that reach it.
    """
    if isinstance(step.target.node, Set) or step.deletes:
        return ()
    kept = []
    for each in step.fields:
        _, finish = _bound_field(step, each, rows)
        kept.append(Kept(step.target, each.name or "", finish, str(each.aggregator), step.place))
    return tuple(kept)


def _is_element(step: Aggregate) -> bool:
    """Whether its last key is an element of a set."""
    return isinstance(step.target.node, Set) and not step.deletes


def _bound_field(step: Aggregate, each: AggregateField, rows: pa.Schema) -> tuple[Aggregator, str]:
    node = step.target.node
    if each.name is not None:
        assert isinstance(node, Struct)
        node = node.get(each.name)  # type: ignore[assignment]  # checked when declared
    types = _input_types(step, each, rows)
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


def _input_types(step: Aggregate, each: AggregateField, rows: pa.Schema) -> list[pa.DataType]:
    """The types of what an aggregate takes of each row."""
    return [
        pa.bool_() if column is None else column_type(rows, column, step) for column in each.columns
    ]


def _presence(step: Aggregate, rows: pa.Schema) -> tuple[FoldedField, ...]:
    """What says whether an entry goes, where not all that came stay or go."""
    (each,) = step.fields
    node = step.target.node
    if not isinstance(node, Set):
        return ()
    types = _input_types(step, each, rows)
    width = len(each.aggregator.state_types(node, types))
    if not width:
        return ()
    with placed(step.place):
        each.aggregator.check(node, types)
    return (FoldedField(each.aggregator, node, each.columns, 0, width),)
