"""Steps whose rows go to the actors of their keys' vnodes, and the keys of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from atoll.aggregates.kernels.types import exact_cast
from atoll.arrow_types import arrow_type
from atoll.codec.keys.columns import KeyColumn, empty_keys, encode_columns
from atoll.engine.step import BoundStep
from atoll.errors import DataError, StateError
from atoll.placement.vnodes import vnodes_by, vnodes_of
from atoll.topology.rows import ORIGIN_FIELD

if TYPE_CHECKING:
    from atoll.engine.exchange.packing import KeyedPacker
    from atoll.engine.step import Packing
    from atoll.schema import Scalar

VNODE = "__vnode"
"""The first column of rows that came to an actor."""

_VNODE_FIELD = pa.field(VNODE, pa.uint16())

NULL_KEY_HINT = "filter such rows out with where(...), or declare the key as X | None"


@dataclass(frozen=True)
class KeyElement:
    """One element of an entry's key: a column of the rows, or a struct field's constant name."""

    column: str | None
    constant: str | None
    kind: Scalar
    skips_null: bool = False
    """Whether rows in which it is null are left out, where the kind has no null."""
    partition_by: Callable[[Any], int] | None = None
    """What says the vnode of a first element, where that is not its CRC-32."""


class KeyedStep(BoundStep):
    """A step whose rows go to the actors of their keys' vnodes."""

    folds: ClassVar[bool] = False
    """Whether rows of one key may be folded before they cross the exchange."""

    sees_records: ClassVar[bool] = False
    """Whether it wants to know of each row which record it is of, whoever else does."""

    @property
    @abstractmethod
    def keyed_by(self) -> tuple[KeyElement, ...]:
        """The elements of the key of a row's entry."""

    @abstractmethod
    def prepared(
        self, rows: pa.Table, vnode_count: int, *, tracked: bool, singly: bool
    ) -> pa.Table:
        """The rows as they cross the exchange, their vnodes first.

        Args:
            rows: Rows that reach the step.
            vnode_count: How many vnodes there are.
            tracked: Whether each says at last which record it is of.
            singly: Whether each stays by itself, so that the actor can refuse it.

        Raises:
            DataError: When a row has no key where there must be one.
        """

    def packer(self, packing: Packing) -> KeyedPacker:
        """What packs rows by the unit of their vnode."""
        from atoll.engine.exchange.packing import KeyedPacker

        tracked = self.sees_records or (self.tag in packing.tracked and not self.folds)
        return KeyedPacker(
            self,
            self.mapping(packing),
            tracked=tracked or packing.careful,
            combine_rows_max=packing.combine_rows_max,
            rejects=packing.rejects,
        )


class WholeRowStep(KeyedStep):
    """A keyed step to which rows come as they are, by the vnode of the whole key."""

    elements: tuple[KeyElement, ...]
    """Of the key."""
    rows: pa.Schema
    """The columns of the rows, all of which are needed."""

    tells_records: ClassVar[bool] = True
    """Whether rows say which record they are of, where that is tracked."""

    @property
    def keyed_by(self) -> tuple[KeyElement, ...]:
        """Its elements."""
        return self.elements

    @property
    def needs(self) -> Collection[str]:
        """All columns."""
        return self.rows.names  # type: ignore[no-any-return]

    def prepared(
        self,
        rows: pa.Table,
        vnode_count: int,
        *,
        tracked: bool,
        singly: bool,  # noqa: ARG002 - nothing is folded
    ) -> pa.Table:
        """The rows as they are."""
        found = vnodes(self, self.elements, rows, vnode_count)
        return with_vnodes(chosen(rows, self.rows, tracked=tracked and self.tells_records), found)


def key_arrays(elements: tuple[KeyElement, ...], rows: pa.Table) -> list[pa.Array]:
    """The key columns of the rows, in the Arrow types of their kinds.

    Raises:
        DataError: When a value cannot be turned into its kind.
    """
    arrays = []
    for element in elements:
        if element.column is None:
            arrays.append(pa.repeat(pa.scalar(element.constant, pa.string()), rows.num_rows))
            continue
        column = rows.column(element.column)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        try:
            arrays.append(_as_kind(array, element.kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"column {element.column!r} does not fit the key's type: {error}",
                hint="cast the column so that every value of it fits",
            ) from error
    return arrays


def _as_kind(array: pa.Array, kind: Scalar) -> pa.Array:
    """Cast; the members of a tuple by position, whatever the struct's fields are called."""
    wanted = arrow_type(kind)
    if not pa.types.is_struct(wanted):
        return exact_cast(array, wanted)
    pairs = zip(array.flatten(), kind.items, strict=True)
    members = [_as_kind(member, item) for member, item in pairs]
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=array.is_null())


def encoded_keys(
    step: KeyedStep, arrays: Sequence[pa.Array], rows: int, first: int = 0
) -> KeyColumn:
    """The keys as bytes, one per row; all the same when there are no elements.

    ``arrays`` are those of the step's key elements from the ``first`` on, or the first of them.

    Raises:
        DataError: When a row has no key where the PState needs one.
    """
    if not arrays:
        return empty_keys(rows)
    elements = step.keyed_by[first : first + len(arrays)]
    kinds = [element.kind for element in elements]
    try:
        return encode_columns(arrays, kinds)
    except StateError as error:
        context = {name: value for name, value in error.context.items() if name != "row"}
        raise DataError(
            f"{error.message}; {key_columns(elements)}", hint=NULL_KEY_HINT, **context
        ) from error


def key_columns(elements: Sequence[KeyElement]) -> str:
    """The columns of a key, as messages list them."""
    names = [element.column or repr(element.constant) for element in elements]
    return f"the key columns are {', '.join(names)}"


def vnodes(
    step: KeyedStep, elements: tuple[KeyElement, ...], rows: pa.Table, count: int
) -> pa.Array:
    """The vnode of each row by the first elements of its key."""
    return vnodes_of_arrays(step, key_arrays(elements, rows), rows.num_rows, count)


def vnodes_of_arrays(
    step: KeyedStep, arrays: list[pa.Array], count: int, vnode_count: int, first: int = 0
) -> pa.Array:
    """The vnode of each row by some of its key's elements, from the ``first`` on."""
    if vnode_count == 1 or not arrays:
        return pa.array(np.zeros(count, dtype=np.uint16))
    keys = encoded_keys(step, arrays, count, first)
    partition_by = step.keyed_by[first].partition_by
    if partition_by is not None:
        return pa.array(vnodes_by(partition_by, keys, vnode_count))
    return pa.array(vnodes_of(keys, vnode_count))


def chosen(rows: pa.Table, schema: pa.Schema, *, tracked: bool) -> pa.Table:
    """The rows with these columns alone, in these types; where tracked, their origins last."""
    wanted = schema.append(ORIGIN_FIELD) if tracked else schema
    return rows.select(wanted.names).cast(wanted)


def with_vnodes(rows: pa.Table, vnodes: pa.Array) -> pa.Table:
    """The rows with their vnodes first."""
    return rows.add_column(0, _VNODE_FIELD, vnodes)
