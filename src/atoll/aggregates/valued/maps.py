"""Maps in one value: ``agg.map`` and ``agg.merge_map`` as columns.

The state has for each key, as keys are in a PState, the state of the aggregate below it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.aggregates.base import Aggregator, Packing, in_words
from atoll.aggregates.finish import OpaqueFinish, item_of
from atoll.aggregates.valued.boxed import finishes
from atoll.aggregates.valued.sets import element_of
from atoll.schema import List, Scalar, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.aggregates.base import LeafForm
    from atoll.aggregates.kernels.collections import Maps
    from atoll.schema import Node


class Entries(OpaqueFinish):
    """Of keys and states the map from key to what its state shows; hidden: the finishes below."""

    word: ClassVar[str] = "map"
    keeps: ClassVar[str] = "keys with what an aggregate keeps of each"

    def suits(self) -> bool:
        """A list of keys and values."""
        return isinstance(item_of(self.node), Struct)

    @property
    def _parts(self) -> tuple[Scalar, Node]:
        """What the keys are, and what their states show."""
        item = item_of(self.node)
        assert isinstance(item, Struct), "which is all that it suits"
        (_, key), (_, value) = item.fields
        assert isinstance(key, Scalar), "as keys are"
        return key, value

    @cached_property
    def _below(self) -> LeafForm:
        return self.unpacking.leaf(self._parts[1], json.loads(self.hidden or "{}"))

    @property
    def value_arrow_type(self) -> pa.DataType:
        """A map."""
        from atoll.aggregates.kernels.collections import map_type

        return map_type(self._parts[0], self._below)

    def column(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The maps, all keys and all states at once."""
        from atoll.aggregates.kernels.collections import shown_maps

        return shown_maps(columns[0], self._parts[0], self._below, self.unpacking)

    def shown(self, state: bytes) -> Any:
        """One map."""
        element, decode = self.unpacking.element, self._below.decode
        return {element(key): decode(inside) for key, inside in self.unpacking.plain(state)}


@dataclass(frozen=True)
class MapValue(Aggregator):
    """An aggregate for each value of a key. ``inputs`` are the key, then what the values need."""

    inner: Aggregator
    key: Scalar | None = None
    node: Node | None = None
    """What the aggregate below comes to; this and the others are known once bound."""
    form: LeafForm | None = None
    packing: Packing | None = None

    word: ClassVar[str] = "map"
    opaque: ClassVar[bool] = True

    def __str__(self) -> str:
        """The key and the aggregate below it."""
        return f"{self.word}({self.inputs[0]}, {self.inner})"

    def types(self, input_types: Sequence[pa.DataType]) -> tuple[Scalar, Sequence[pa.DataType]]:
        """What the keys are, and the types of what the aggregate below takes."""
        return element_of(self, input_types[0], "keys"), input_types[1:]

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """The entries."""
        key, rest = self.types(input_types)
        return List(Struct(key=key, value=self.inner.result_node(rest)))

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002 - own
        """It goes into what it says."""
        self.result_node(input_types)

    def bind(self, node: Node, input_types: Sequence[pa.DataType], packing: Packing) -> Aggregator:
        """With what its keys are, and the form of the states below."""
        assert packing.leaf is not None
        assert isinstance(node, List)
        key, rest = self.types(input_types)
        _, (_, value) = node.item.fields
        return replace(
            self,
            inner=self.inner.bind(value, rest, packing),
            key=key,
            node=value,
            form=packing.leaf(value, self.inner.finishers(value, rest)),
            packing=packing,
        )

    def finisher(self, input_types: Sequence[pa.DataType]) -> str:
        """With the finishes below."""
        _, rest = self.types(input_types)
        return Entries.text(finishes(self.inner, self.inner.result_node(rest), rest))

    def entries(
        self, columns: Sequence[pa.Array]
    ) -> tuple[NDArray[np.int64], pa.Array, list[pa.Array]]:
        """For each entry its row, its key, and what the aggregate below takes."""
        from atoll.aggregates.kernels.collections import keyed_rows

        rows, keys = keyed_rows(columns[0])
        return rows, keys, [column.take(rows) for column in columns[1:]]

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:
        """The entries of each row."""
        import numpy as np

        rows = np.arange(len(columns[0]))
        return self.fold(columns, node, rows, rows)

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The entries of each group, those of one key reduced."""
        return [self._maps.reduced(states[0], starts)]

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The old entries, with the new ones merged in."""
        return [self._maps.merged(old[0], new[0])]

    def fold(
        self,
        columns: Sequence[pa.Array],
        node: Node,  # noqa: ARG002 - bound
        order: NDArray[np.int64],
        starts: NDArray[np.int64],
    ) -> list[pa.Array]:
        """Each group's entries, those of one key folded."""
        from atoll.aggregates.kernels.collections import groups_of

        rows, keys, inputs = self.entries([column.take(order) for column in columns])
        groups = groups_of(starts, len(order))[rows]
        return [self._maps.folded(keys, inputs, groups, len(starts))]

    @property
    def _maps(self) -> Maps:
        from atoll.aggregates.kernels.collections import Maps

        assert self.key is not None, "maps are bound before they run"
        assert self.node is not None, "maps are bound before they run"
        assert self.form is not None, "maps are bound before they run"
        assert self.packing is not None, "maps are bound before they run"
        return Maps(self.inner, self.key, self.node, self.form, self.packing)


@dataclass(frozen=True)
class MergeMapValue(MapValue):
    """The entries of maps, with an aggregate of their values; the one input is the map."""

    word: ClassVar[str] = "merge_map"

    def __str__(self) -> str:
        """The map."""
        return f"{self.word}({self.inputs[0]})"

    def types(self, input_types: Sequence[pa.DataType]) -> tuple[Scalar, Sequence[pa.DataType]]:
        """Those of the map's entries."""
        from pyarrow import types

        (kind,) = input_types
        if not types.is_map(kind):
            raise self.refusal(
                f"needs maps, its input is {in_words(kind)}", "use agg.map_from(key, value)"
            )
        return element_of(self, kind.key_type, "keys"), [kind.item_type]

    def entries(
        self, columns: Sequence[pa.Array]
    ) -> tuple[NDArray[np.int64], pa.Array, list[pa.Array]]:
        """The entries of the maps, in their order."""
        from atoll.aggregates.kernels.collections import entries_of_maps

        rows, keys, items = entries_of_maps(columns[0])
        return rows, keys, [items]
