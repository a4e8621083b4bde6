"""Arrow batches in, Arrow batches out: ``stream.map_batches(function, emits=...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.dataflow.operators.base import BatchOperator
from atoll.dataflow.usercode import calling
from atoll.errors import UserCodeError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MapBatches"]


@dataclass(frozen=True, eq=False)
class MapBatches(BatchOperator):
    """Calls a Python function once per task with an iterator of ``pyarrow.RecordBatch``."""

    function: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    emitted: pa.Schema

    @property
    def title(self) -> str:
        """As users write it."""
        return "map_batches"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """What ``emits=`` declared."""
        return self.emitted

    def run(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The user's iterator, each batch checked against ``emits=``."""
        with calling(self, None):
            for batch in self.function(batches):
                yield self._checked(batch)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        try:
            columns = [batch.column(field.name).cast(field.type) for field in self.emitted]
            return pa.RecordBatch.from_arrays(columns, schema=self.emitted)
        except (KeyError, AttributeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UserCodeError(
                f"a batch emitted by map_batches does not fit what it declares: {error}",
                hint=f"emit pyarrow.RecordBatch with {self.emitted.to_string()}",
                operator=self.title,
                declared=self.place,
            ) from error
