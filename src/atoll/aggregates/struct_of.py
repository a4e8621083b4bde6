"""Several aggregates into one struct leaf: ``aggregate(stats["url"], hits=agg.count(), ...)``.

The state of the struct is the states of its fields, one after the other. A field that no
aggregate was given for keeps what the store holds, so that several sources may each fold into
fields of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from atoll.aggregates.base import Aggregator, Packing, StateField
from atoll.schema import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


@dataclass(frozen=True)
class Kept(Aggregator):
    """A field that stays as it is. ``field`` is its state, as its own aggregate keeps it."""

    field: StateField | None = None
    word: ClassVar[str] = "kept"

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:  # noqa: ARG002 - no inputs
        """As its own aggregate says."""
        return "plain" if self.field is None else self.field.finish

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:  # noqa: ARG002 - no inputs
        """The field's own schema."""
        if self.field is None:
            raise self.refusal("has no result of its own", "name the field's aggregate")
        return self.field.node

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Any field may stay."""

    def state_types(
        self,
        node: Node,
        input_types: Sequence[pa.DataType],  # noqa: ARG002 - no inputs
    ) -> tuple[pa.DataType, ...]:
        """The columns of the field's state."""
        if self.field is not None:
            return self.field.columns
        from atoll.arrow_types import column_type

        return (column_type(node),)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """Nothing known; ``columns`` only tell the number of rows."""
        from atoll.aggregates.kernels.segments import nulls

        return [nulls(len(columns[0]), each) for each in self.state_types(node, ())]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """Nothing known."""
        return [state.slice(0, len(starts)) for state in states]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:  # noqa: ARG002
        """The old state."""
        return list(old)


@dataclass(frozen=True)
class StructOf(Aggregator):
    """One aggregate per field. Make it with :meth:`of`; bound, it has the leaf's field order."""

    fields: tuple[tuple[str, Aggregator], ...] = ()
    places: tuple[tuple[int, ...], ...] = ()
    """For each field the columns of :attr:`inputs` that are its own."""
    node: Struct | None = None
    widths: tuple[int, ...] = ()
    """For each field the number of its physical columns; known once bound."""

    word: ClassVar[str] = "struct"

    @classmethod
    def of(cls, fields: Mapping[str, Aggregator]) -> StructOf:
        """The aggregate of these fields; an input that several name is asked for once."""
        inputs: list[str] = []
        places = []
        for aggregator in fields.values():
            for text in aggregator.inputs:
                if text not in inputs:
                    inputs.append(text)
            places.append(tuple(inputs.index(text) for text in aggregator.inputs))
        return cls(tuple(inputs), tuple(fields.items()), tuple(places))

    def __str__(self) -> str:
        """Each field with its aggregate."""
        return ", ".join(f"{name}={aggregator}" for name, aggregator in self.fields)

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A struct of the fields' results."""
        return Struct(
            **{
                name: each.result_node(self._types(place, input_types))
                for (name, each), place in zip(self.fields, self.places, strict=True)
            }
        )

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """Into a struct that is one leaf and has these fields."""
        if not (isinstance(node, Struct) and node.leaf):
            raise self.refusal(
                f"gives a struct, the PState holds {node}", "declare Struct(...) of values there"
            )
        for (name, each), place in zip(self.fields, self.places, strict=True):
            field = node.get(name)
            if field is None:
                raise self.refusal(
                    f"names a field {name!r} that the PState lacks",
                    f"its fields are {', '.join(node.names())}",
                )
            if each.element_wise:
                raise self.refusal(f"adds elements to {name!r}", "use collect_list in a struct")
            each.check(field, self._types(place, input_types))

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With every field of the leaf, in its order."""
        self.check(node, input_types)
        assert isinstance(node, Struct), "checked"
        given = self._given
        fields, places, widths = [], [], []
        for name, field in node.fields:
            each, place = given.get(name, (Kept(()), ()))
            types = self._types(place, input_types)
            fields.append((name, each.bind(field, types, packing)))
            places.append(place)
            widths.append(len(each.state_types(field, types)))
        return StructOf(self.inputs, tuple(fields), tuple(places), node, tuple(widths))

    def state_fields(
        self, node: Node, input_types: Sequence[pa.DataType]
    ) -> tuple[StateField, ...]:
        """Those of the leaf's fields, in its order."""
        assert isinstance(node, Struct), "checked when it was declared"
        given = self._given
        found = []
        for name, field in node.fields:
            each, place = given.get(name, (Kept(()), ()))
            types = self._types(place, input_types)
            columns = each.state_types(field, types)
            found.append(StateField(name, field, columns, each.finisher(types)))
        return tuple(found)

    def state_types(
        self, node: Node, input_types: Sequence[pa.DataType]
    ) -> tuple[pa.DataType, ...]:
        """The columns of all fields."""
        fields = self.state_fields(node, input_types)
        return tuple(column for each in fields for column in each.columns)

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """The states of each field."""
        return [
            state for each, field, own in self._bound(columns) for state in each.lift(own, field)
        ]

    def nothing(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002 - bound
        """Field by field."""
        return [
            state for each, field, own in self._bound(columns) for state in each.nothing(own, field)
        ]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """Field by field."""
        parts = zip(self.fields, self._cut(states), strict=True)
        return [state for (_, each), own in parts for state in each.reduce(own, starts)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """Field by field."""
        parts = zip(self.fields, self._cut(old), self._cut(new), strict=True)
        return [state for (_, each), o, n in parts for state in each.merge(o, n)]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Field by field."""
        return [
            state
            for each, field, own in self._bound(columns)
            for state in each.fold(own, field, order, starts)
        ]

    @property
    def _given(self) -> dict[str, tuple[Aggregator, tuple[int, ...]]]:
        """For each field that has one its aggregate, and the places of its inputs."""
        pairs = zip(self.fields, self.places, strict=True)
        return {name: (each, place) for (name, each), place in pairs}

    def _bound(
        self, columns: Sequence[pa.Array]
    ) -> list[tuple[Aggregator, Node, Sequence[pa.Array]]]:
        """For each field its aggregate, its schema and its columns."""
        assert self.node is not None, "structs of aggregates are bound before they run"
        return [
            (each, field, [columns[i] for i in place] or columns[:1])
            for (_, each), (_, field), place in zip(
                self.fields, self.node.fields, self.places, strict=True
            )
        ]

    def _cut(self, states: Sequence[pa.Array]) -> list[Sequence[pa.Array]]:
        """The state columns of each field."""
        assert self.node is not None, "structs of aggregates are bound before they run"
        ends = [sum(self.widths[:i]) for i in range(len(self.widths) + 1)]
        return [states[start:end] for start, end in pairwise(ends)]

    @staticmethod
    def _types(place: tuple[int, ...], input_types: Sequence[pa.DataType]) -> Sequence[pa.DataType]:
        return [input_types[i] for i in place]
