"""Runs the Python steps of a chain over the batches of its origin and feeds its terminals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.dataflow.operators import BatchOperator

__all__ = ["Sink", "run_steps"]


class Sink(Protocol):
    """Takes the rows that reach a terminal."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch; batches come in row order."""


def run_steps(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    steps: Iterable[BatchOperator],
) -> Iterator[pa.RecordBatch]:
    """The batches after all steps, lazily; without steps the batches themselves."""
    for step in steps:
        batches = step.run(batches, schema)
        schema = step.schema((schema,))
    return batches
