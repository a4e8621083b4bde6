"""The rows without some of their columns, which a step of Atoll's own has computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Without(BatchOperator):
    """Drops columns that no user knows of."""

    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    drawn: ClassVar[bool] = False

    columns: tuple[str, ...]
    word: str
    """The step that they were computed for."""

    @property
    def title(self) -> str:
        """As users wrote the step."""
        return self.word

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The other columns."""
        import pyarrow as pa

        return pa.schema([field for field in inputs[0] if field.name not in self.columns])

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        for batch in batches:
            yield batch.drop_columns(list(self.columns))
