"""Custom combiners: state columns to Python values, the user's function, and back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.aggregates.kernels.types import conform, fitted
from atoll.arrow_types import OPAQUE, column_type
from atoll.errors import AtollError, StateError, UserCodeError
from atoll.exact_values import exact_array
from atoll.python_values import python_values
from atoll.schema import Node, Scalar, Struct

if TYPE_CHECKING:
    from atoll.aggregates.base import Aggregator, Packing


_TAKE_ALL = "the function must take every value that it returns and every lifted one"
_UNCHANGING = (bool, int, float, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Combiner:
    """One custom combiner at work on a leaf of a known schema."""

    label: str
    node: Node
    packing: Packing
    zero: Any
    function: Callable[[Any, Any], Any]

    def lift(
        self, columns: Sequence[pa.Array], lifter: Callable[..., Any] | None
    ) -> list[pa.Array]:
        """The states of single rows."""
        if lifter is not None:
            rows = zip(*map(python_values, columns), strict=True)
            with blamed(self.label, _TAKE_ALL):
                values = [lifter(*row) for row in rows]
            return to_columns(values, self.node, self.packing, self.label)
        if not isinstance(self.node, Struct):
            return [fitted(columns[0], self.node, self.label, self.packing)]
        if len(columns) == 1 and pa.types.is_struct(columns[0].type):
            members = dict(
                zip((f.name for f in columns[0].type), columns[0].flatten(), strict=True)
            )
            columns = [members[name] for name in self.node.names()]
        return [
            fitted(column, field, self.label, self.packing)
            for column, (_, field) in zip(columns, self.node.fields, strict=True)
        ]

    def reduce(self, states: Sequence[pa.Array], starts: NDArray[np.int64]) -> list[pa.Array]:
        """The states of groups."""
        values = self._values(states)
        bounds = [*starts.tolist(), len(values)]
        with blamed(self.label, _TAKE_ALL):
            reduced = [self._combined(values[start:end]) for start, end in pairwise(bounds)]
        return to_columns(reduced, self.node, self.packing, self.label)

    def merge(self, old: Sequence[pa.Array], new: Sequence[pa.Array]) -> list[pa.Array]:
        """The states of pairs; an absent one starts from zero."""
        pairs = zip(self._values(old), self._values(new), strict=True)
        with blamed(self.label, _TAKE_ALL):
            merged = [
                self._combined([fresh(self.zero) if current is None else current, value])
                for current, value in pairs
            ]
        return to_columns(merged, self.node, self.packing, self.label)

    def _combined(self, values: Iterable[Any]) -> Any:
        current = None
        function = self.function
        for value in values:
            if value is not None:
                current = value if current is None else function(current, value)
        return current

    def _values(self, columns: Sequence[pa.Array]) -> list[Any]:
        return from_columns(columns, self.node, self.packing)


@contextmanager
def blamed(label: str, hint: str) -> Iterator[None]:
    """Errors raised inside are those of the user's function."""
    try:
        yield
    except AtollError:
        raise
    except Exception as error:
        raise UserCodeError(
            f"agg.{label} raised {type(error).__name__}: {error}", hint=hint, aggregate=label
        ) from error


def fresh(value: Any) -> Any:
    """The value for a function that may change it in place."""
    return value if isinstance(value, _UNCHANGING) else copy.deepcopy(value)


def is_identity(zero: Any, function: Callable[[Any, Any], Any]) -> bool:
    """Whether zero can be the function's identity, as far as zero alone tells.

    True when it cannot be told: the function may not take it, and NaN equals nothing.
    """
    if zero is None:
        return True
    try:
        return zero != zero or bool(function(fresh(zero), fresh(zero)) == zero)  # noqa: PLR0124
    except Exception:  # noqa: BLE001 - the user's function may raise anything; then rows will tell
        return True


def check_value(
    value: Any, node: Node, packing: Packing, aggregator: Aggregator, name: str
) -> None:
    """Hold that a leaf can keep a value that the user gave; None stands for no value.

    Raises:
        DeclarationError: When it cannot.
    """
    if value is None:
        return
    try:
        to_columns([value], node, packing, str(aggregator))
    except StateError as error:
        raise aggregator.refusal(
            f"has {name}={value!r}, which the PState cannot hold: {error.message}",
            f"give a value of {node}",
        ) from error


def from_columns(columns: Sequence[pa.Array], node: Node, packing: Packing) -> list[Any]:
    """The Python value of each row of a leaf's physical columns; None where all are null."""
    if not isinstance(node, Struct):
        return _field_values(columns[0], node, packing)
    names = node.names()
    members = [
        _field_values(column, field, packing)
        for column, (_, field) in zip(columns, node.fields, strict=True)
    ]
    return [
        None if all(member is None for member in row) else dict(zip(names, row, strict=True))
        for row in zip(*members, strict=True)
    ]


def to_columns(values: Sequence[Any], node: Node, packing: Packing, label: str) -> list[pa.Array]:
    """The physical columns of Python values.

    Raises:
        StateError: When a value does not fit the leaf.
    """
    if not isinstance(node, Struct):
        return [_field_column(values, node, packing, label)]
    names = node.names()
    for value in values:
        if value is not None and (not isinstance(value, dict) or value.keys() != set(names)):
            raise StateError(
                f"agg.{label} gave {value!r}",
                hint=f"return a dict with the fields {', '.join(names)}",
                aggregate=label,
            )
    return [
        _field_column([None if v is None else v[name] for v in values], field, packing, label)
        for name, field in node.fields
    ]


def _field_values(column: pa.Array, node: Node, packing: Packing) -> list[Any]:
    values = column.to_pylist()
    if not isinstance(node, Scalar):
        return [None if data is None else packing.unpack(node, data) for data in values]
    return [conform(value, node) for value in values] if node.kind == "tuple" else values


def _field_column(values: Sequence[Any], node: Node, packing: Packing, label: str) -> pa.Array:
    if not isinstance(node, Scalar):
        packed = [None if value is None else packing.pack(node, value) for value in values]
        return pa.array(packed, OPAQUE)
    try:
        rows = [_arrow_ready(value, node) for value in values] if node.kind == "tuple" else values
        return exact_array(rows, column_type(node), from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
        raise StateError(
            f"agg.{label} gave a value that is no {node}: {error}",
            hint="return values of the type that the PState declares",
            aggregate=label,
        ) from error


def _arrow_ready(value: Any, node: Scalar) -> Any:
    if value is None or node.kind != "tuple":
        return value
    members = zip(value, node.items, strict=True)
    return {f"f{i}": _arrow_ready(member, item) for i, (member, item) in enumerate(members)}
