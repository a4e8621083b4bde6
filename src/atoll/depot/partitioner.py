"""Which depot partition a record goes to, decided for whole batches at a time.

Equal values of a hashed field always go to the same depot partition, so their records keep their
order. The hash is CRC-32 of the field's key encoding, the same bytes that place state by vnode.
"""

from __future__ import annotations

import itertools
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atoll.arrow_types import kind_of
from atoll.codec.keys.columns import encode_columns
from atoll.codec.keys.elements import encode_element
from atoll.ddl import type_in_words
from atoll.errors import DeclarationError, DepotError, UserCodeError
from atoll.python_values import python_rows
from atoll.schema import Scalar

Parts = list[tuple[int, pa.RecordBatch]]
RecordParts = list[tuple[int, list[Any]]]
Targets = NDArray[np.uint32]
_SCALAR_ROWS_MAX = 16


@dataclass(frozen=True, slots=True)
class HashBy:
    """By the hash of one field of a simple type; null counts as a value."""

    field: str


@dataclass(frozen=True, slots=True)
class Random:
    """Spread evenly, without regard to content: runs of records go to the next partitions."""


@dataclass(frozen=True, slots=True)
class Custom:
    """By a function of the record (a dict) and the number of depot partitions, to an index."""

    choose: Callable[[Mapping[str, Any], int], int]


Partitioner = HashBy | Random | Custom


def check_partitioner(partitioner: HashBy, schema: pa.Schema, depot: str) -> Scalar:
    """The scalar of the hashed field.

    Raises:
        DeclarationError: When there is no such field, or it is nested.
    """
    if partitioner.field not in schema.names:
        raise DeclarationError(
            f"depot {depot!r} is partitioned by {partitioner.field!r}, which it has no field of",
            hint=f"its fields are {', '.join(schema.names)}",
        )
    field = schema.field(partitioner.field)
    kind = "datetime" if pa.types.is_timestamp(field.type) else kind_of(field.type)
    if kind is None:
        raise DeclarationError(
            f"depot {depot!r} cannot be partitioned by {field.name!r}: it is "
            f"{type_in_words(field.type)}",
            hint="hash a field of a simple type, or give a function",
        )
    return Scalar(kind, optional=True)


class Placer:
    """Divides batches among the partitions of one depot. Safe to share between threads."""

    def __init__(
        self, partitioner: Partitioner, schema: pa.Schema, partitions: int, depot: str
    ) -> None:
        self.partitions = partitions
        self.depot = depot
        self._turn = itertools.count(secrets.randbelow(partitions))
        self._scalar = Scalar("str")
        self._targets = self._by_turn
        if isinstance(partitioner, HashBy):
            self._field = schema.names.index(partitioner.field)
            self._scalar = check_partitioner(partitioner, schema, depot)
            self._targets = self._by_hash
        elif isinstance(partitioner, Custom):
            self._choose = partitioner.choose
            self._targets = self._by_function

    def divide(self, batch: pa.RecordBatch) -> Parts:
        """The batch's records per depot partition, in their order; partitions rise.

        Raises:
            UserCodeError: When a custom function raises.
            DepotError: When it returns no partition's index.
        """
        if batch.num_rows == 0:
            return []
        if self.partitions == 1:
            return [(0, batch)]
        return _split(batch, self._targets(batch), self.partitions)

    def divide_records(self, batch: pa.RecordBatch, records: list[Any]) -> RecordParts:
        """As :meth:`divide`, for a few records as objects; the batch holds the same ones."""
        if self.partitions == 1 or not records:
            return [(0, records)] if records else []
        parts: dict[int, list[Any]] = {}
        for target, record in zip(self._targets(batch).tolist(), records, strict=True):
            parts.setdefault(target, []).append(record)
        return sorted(parts.items())

    def _by_hash(self, batch: pa.RecordBatch) -> Targets:
        column = batch.column(self._field)
        if column.type == pa.timestamp("us"):
            column = column.cast(pa.timestamp("us", "UTC"))
        # columns have a fixed cost that pays only for many; decimal columns have a lower range
        if len(column) <= _SCALAR_ROWS_MAX or pa.types.is_decimal(column.type):
            hashes = [
                zlib.crc32(encode_element(value, self._scalar)) for value in column.to_pylist()
            ]
            return np.array(hashes, dtype=np.uint32) % np.uint32(self.partitions)
        crcs = encode_columns([column], [self._scalar]).crc32()
        return np.asarray(crcs % np.uint32(self.partitions), dtype=np.uint32)

    def _by_function(self, batch: pa.RecordBatch) -> Targets:
        chosen = []
        for row in python_rows(batch):
            try:
                index = self._choose(row, self.partitions)
            except Exception as error:
                raise UserCodeError(
                    f"the partitioner raised {type(error).__name__}: {error}", depot=self.depot
                ) from error
            if not isinstance(index, int) or not 0 <= index < self.partitions:
                raise DepotError(
                    f"the partitioner chose {index!r}, which is no depot partition",
                    hint=f"return an int from 0 to {self.partitions - 1}",
                    depot=self.depot,
                )
            chosen.append(index)
        return np.array(chosen, dtype=np.uint32)

    def _by_turn(self, batch: pa.RecordBatch) -> Targets:
        """Equal runs of records, beginning with the partition whose turn it is."""
        runs = min(self.partitions, batch.num_rows)
        first = next(self._turn)
        run_of_row = np.arange(batch.num_rows, dtype=np.uint64) * runs // batch.num_rows
        return np.asarray((run_of_row + first) % self.partitions, dtype=np.uint32)


def _split(batch: pa.RecordBatch, targets: Targets, partitions: int) -> Parts:
    if batch.num_rows == 1:
        return [(int(targets[0]), batch)]
    order = np.argsort(targets.astype(np.uint16), kind="stable")  # 16 bits: a radix sort
    counts = np.bincount(targets, minlength=partitions)
    if counts.max() == batch.num_rows:
        return [(int(targets[0]), batch)]
    ordered = batch.take(pa.array(order))
    parts, start = [], 0
    for partition, count in enumerate(counts.tolist()):
        if count:
            parts.append((partition, ordered.slice(start, count)))
            start += count
    return parts
