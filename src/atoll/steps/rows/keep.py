"""Keep the rows that a Python function is true of: ``stream.where(lambda row: row.v > 0)``."""

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


@dataclass(frozen=True, eq=False)
class Keep(BatchOperator):
    """Calls a Python function with each row."""

    keeps_rows: ClassVar[bool] = True
    makes: ClassVar[Makes] = "at most one"

    function: Callable[[Row], Any]
    word: str = "where"
    """What the user wrote that made it."""

    @property
    def title(self) -> str:
        """As users write it."""
        return self.word

    @property
    def sees_records(self) -> bool:
        """Its function may raise."""
        return True

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's."""
        return inputs[0]

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; a row of which the function raises is kept nowhere."""
        import pyarrow as pa

        from atoll.steps.rows.calls import verdicts

        for batch in batches:
            kept = verdicts(self, batch, self.function, rejects)
            yield batch.filter(pa.array([each is True for each in kept], pa.bool_()))
