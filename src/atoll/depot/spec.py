"""What a depot is: its records' schema, its parts, and how long it keeps what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from atoll.depot.migration import DepotMigration
from atoll.depot.partitioner import HashBy, Partitioner, Random, check_partitioner
from atoll.depot.producers.table import PRODUCER_SECONDS_MAX
from atoll.errors import DeclarationError

SEGMENT_BYTES_MAX = 64 * 1024 * 1024
_SEGMENT_BYTES_LEAST = 64 * 1024
_PARTITIONS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Retention:
    """How much must be kept; what lies beyond every limit given may go, segment by segment.

    Without a limit everything is kept.

    Attributes:
        records_max: Keep at least the newest so many records of each depot partition.
        age_seconds_max: Keep at least the records appended in the last so many seconds.
    """

    records_max: int | None = None
    age_seconds_max: float | None = None

    def __post_init__(self) -> None:
        """Refuse negative limits."""
        if (self.records_max or 0) < 0 or (self.age_seconds_max or 0) < 0:
            raise DeclarationError("a retention limit cannot be negative")


@dataclass(frozen=True)
class DepotSpec:
    """One depot's declaration.

    Attributes:
        name: Its name in the module.
        schema: The records' schema, with the types of :mod:`atoll.ddl`.
        partitions: How many depot partitions; fixed for the depot's life. One means global.
        partitioner: Where a record goes.
        retention: How much is kept at least.
        segment_bytes_max: A segment file that has grown to this size is followed by a new one.
        producer_seconds_max: How long a producer that appends nothing is remembered.
        migrations: What records of older schemas go through, in order.
        module: Whose it is; receipts say so.
        row_class: The class whose objects the records are, when it was declared with one.
    """

    name: str
    schema: pa.Schema
    partitions: int = 1
    partitioner: Partitioner = field(default_factory=Random)
    retention: Retention = field(default_factory=Retention)
    segment_bytes_max: int = SEGMENT_BYTES_MAX
    producer_seconds_max: float = PRODUCER_SECONDS_MAX
    migrations: tuple[DepotMigration, ...] = ()
    module: str = ""
    row_class: type | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without opening the depot."""
        if not 1 <= self.partitions <= _PARTITIONS_MAX:
            raise DeclarationError(
                f"depot {self.name!r} cannot have {self.partitions} partitions",
                hint=f"choose 1 to {_PARTITIONS_MAX}",
            )
        if self.segment_bytes_max < _SEGMENT_BYTES_LEAST:
            raise DeclarationError(
                f"depot {self.name!r}: segments of {self.segment_bytes_max} bytes are too small",
                hint=f"choose at least {_SEGMENT_BYTES_LEAST}",
            )
        if isinstance(self.partitioner, HashBy):
            check_partitioner(self.partitioner, self.schema, self.name)
