"""A state of any columns as one column of bytes: structs inside of structs, windows and maps."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, Packing
from atoll.aggregates.finish import OpaqueFinish

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.base import LeafForm
    from atoll.schema import Node


class Box(OpaqueFinish):
    """Of the bytes of a state what is shown of it; hidden: the finishes inside, as JSON."""

    word: ClassVar[str] = "boxed"
    keeps: ClassVar[str] = "what several aggregates keep, in one value"

    def suits(self) -> bool:
        """Every leaf."""
        return self.node.leaf

    @cached_property
    def _inside(self) -> LeafForm:
        return self.unpacking.leaf(self.node, json.loads(self.hidden or "{}"))

    @property
    def value_arrow_type(self) -> pa.DataType:
        """As inside."""
        return self._inside.value_arrow_type

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """As inside, over whole columns."""
        return self._inside.finish_columns(self._inside.decode_columns(columns[0].to_pylist()))

    def shown(self, state: bytes) -> Any:
        """As inside."""
        return self._inside.decode(state)


@dataclass(frozen=True)
class Boxed(Aggregator):
    """Does what the aggregate inside does."""

    inner: Aggregator
    form: LeafForm | None = None
    """How the state inside becomes bytes; known once bound."""

    word: ClassVar[str] = "struct"
    opaque: ClassVar[bool] = True

    @classmethod
    def of(cls, inner: Aggregator) -> Boxed:
        """The aggregate in a box."""
        return cls(inner.inputs, inner)

    def __str__(self) -> str:
        """That inside."""
        return f"{self.inner.word}({self.inner})"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """That of the aggregate inside."""
        return self.inner.result_node(input_types)

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:
        """As the aggregate inside."""
        self.inner.check(node, input_types)

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """The aggregate inside, and the form of its state."""
        assert packing.leaf is not None
        form = packing.leaf(node, self.inner.finishers(node, input_types))
        return replace(self, inner=self.inner.bind(node, input_types, packing), form=form)

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:
        """With the finishes inside."""
        return Box.text(finishes(self.inner, self.result_node(input_types), input_types))

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """As inside."""
        return self._packed(self.inner.lift(columns, node))

    def nothing(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """As inside."""
        return self._packed(self.inner.nothing(columns, node))

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """As inside."""
        return self._packed(self.inner.reduce(self._unpacked(states), starts))

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """As inside."""
        return self._packed(self.inner.merge(self._unpacked(old), self._unpacked(new)))

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """As inside."""
        return self._packed(self.inner.fold(columns, node, order, starts))

    def _packed(self, states: Sequence[pa.Array]) -> list[pa.Array]:
        import pyarrow as pa

        from atoll.arrow_types import OPAQUE

        assert self.form is not None, "boxed aggregates are bound before they run"
        return [pa.array(self.form.encode_columns(states), OPAQUE)]

    def _unpacked(self, states: Sequence[pa.Array]) -> list[pa.Array]:
        assert self.form is not None, "boxed aggregates are bound before they run"
        return self.form.decode_columns(states[0].to_pylist())


def finishes(inner: Aggregator, node: Node, input_types: Sequence[pa.DataType]) -> str:
    """The finishes of an aggregate's fields, as a layout keeps them."""
    return json.dumps(inner.finishers(node, input_types), sort_keys=True)
