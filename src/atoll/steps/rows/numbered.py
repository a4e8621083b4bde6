"""A number for each row by a function of the user's: for ``partition_by`` and ``branch``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects

NUMBER = "__number"
"""The column of the number, until the rows are placed or divided."""


@dataclass(frozen=True, eq=False)
class Numbered(BatchOperator):
    """Calls the function with each row and adds what it returns, an int, as a column.

    With ``truth`` it is 1 where the function is true of the row, else 0. ``word`` is what the
    user wrote that made it.
    """

    keeps_rows: ClassVar[bool] = True
    makes: ClassVar[Makes] = "one"

    function: Callable[[Row], Any]
    word: str
    truth: bool = False

    @property
    def title(self) -> str:
        """As users write it."""
        return self.word

    @property
    def sees_records(self) -> bool:
        """Its function may raise."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns and the number."""
        import pyarrow as pa

        return inputs[0].append(pa.field(NUMBER, pa.int64()))

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        from atoll.steps.rows.calls import numbers

        for batch in batches:
            yield numbers(self, batch, self._truth if self.truth else self.function, rejects)

    def _truth(self, row: Row) -> int:
        return int(bool(self.function(row)))
