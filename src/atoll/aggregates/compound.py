"""Aggregates below a place: ``agg.map`` into the entries of a Map, ``agg.struct`` into a Struct.

They nest as schemas do: ``agg.map("day", agg.struct(n=agg.count(), users=agg.collect_set("u")))``
goes into a ``Map(date, Struct(n=int, users=Set(str)))``. Where they are declared they are taken
apart into one aggregate for each place at which a value is stored, so they keep no state of their
own: a Map's entries are read and written one by one, and may grow without bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

from atoll.aggregates.base import Aggregator, expression, in_words
from atoll.aggregates.rows.positions import last
from atoll.aggregates.struct_of import StructOf
from atoll.aggregates.totals.count import count
from atoll.errors import DeclarationError
from atoll.schema import Map, Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.schema import Node


@dataclass(frozen=True)
class Compound(Aggregator):
    """What is taken apart where it is declared, and never runs itself."""

    def check(self, node: Node, input_types: Sequence[pa.DataType]) -> None:  # noqa: ARG002
        """Into a Map, and only where ``aggregate`` finds it."""
        if not isinstance(node, Map):
            raise self.refusal(f"fills a Map, the PState holds {node}", "declare Map(...) there")

    def lift(self, columns: Sequence[pa.Array], node: Node) -> list[pa.Array]:  # noqa: ARG002
        """Never called."""
        self._apart()

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:  # noqa: ARG002
        """Never called."""
        self._apart()

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:  # noqa: ARG002
        """Never called."""
        self._apart()

    def _apart(self) -> NoReturn:
        raise AssertionError(f"{self} is taken apart where it is declared")


@dataclass(frozen=True)
class MapOf(Compound):
    """An aggregate for each value of a key. ``inputs`` are the key, then what the values need."""

    inner: Aggregator

    word: ClassVar[str] = "map"

    def __str__(self) -> str:
        """The key and the aggregate below it."""
        return f"{self.word}({self.key}, {self.inner})"

    @property
    def key(self) -> str:
        """The expression of the key."""
        return self.inputs[0]

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A map of the inner results."""
        from atoll.arrow_types import node_of

        key = node_of(input_types[0])
        if not isinstance(key, Scalar):
            raise self.refusal(
                f"needs scalars as keys, its key is {in_words(input_types[0])}",
                "name one member of it",
            )
        return Map(Scalar(key.kind, items=key.items), self.inner.result_node(input_types[1:]))


@dataclass(frozen=True)
class MergeMap(Compound):
    """The entries of maps, the latest of each key."""

    word: ClassVar[str] = "merge_map"

    def result_node(self, input_types: Sequence[pa.DataType]) -> Node:
        """A map of the entries' types."""
        from pyarrow import types

        from atoll.arrow_types import node_of

        (kind,) = input_types
        key = node_of(kind.key_type) if types.is_map(kind) else None
        if not isinstance(key, Scalar):
            raise self.refusal(
                f"needs maps, its input is {in_words(kind)}", "use agg.map_from(key, value)"
            )
        return Map(Scalar(key.kind, items=key.items), node_of(kind.item_type))


def map(key: str, values: Aggregator) -> MapOf:  # noqa: A001 - used as agg.map
    """One aggregate for each value of ``key``, into a ``Map``: ``agg.map("day", agg.count())``.

    Rows whose key is null add nothing, unless the Map's keys are optional.

    Raises:
        DeclarationError: When ``values`` is no aggregate.
    """
    if not isinstance(values, Aggregator):
        raise DeclarationError(
            f"agg.map of {values!r}", hint='give an aggregate: agg.map("day", agg.count())'
        )
    return MapOf((expression(key, "map"), *values.inputs), values)


def struct(**fields: Aggregator) -> StructOf:
    """One aggregate for each field of a ``Struct``: ``agg.struct(n=agg.count())``.

    Raises:
        DeclarationError: When there are no fields, or one is no aggregate.
    """
    wrong = [name for name, each in fields.items() if not isinstance(each, Aggregator)]
    if wrong or not fields:
        given = f"{wrong[0]}={fields[wrong[0]]!r}" if wrong else "no fields"
        raise DeclarationError(
            f"agg.struct of {given}", hint="give an aggregate by field: agg.struct(n=agg.count())"
        )
    return StructOf.of(fields)


def count_values(expr: str) -> MapOf:
    """How often each value of ``expr`` came, nulls left out; into a ``Map(type, int)``."""
    return map(expression(expr, "count_values"), count())


def map_from(key: str, value: str) -> MapOf:
    """The value that came last for each ``key``; into a ``Map``."""
    return map(expression(key, "map_from"), last(expression(value, "map_from")))


def merge_map(expr: str) -> MergeMap:
    """The entries of the maps that ``expr`` gives, the latest of each key; into a ``Map``."""
    return MergeMap((expression(expr, "merge_map"),))
