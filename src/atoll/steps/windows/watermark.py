"""How far event time has come: ``stream.with_watermark("at", "10 seconds")``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.kept.hidden import Hidden
    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Watermark(BatchOperator):
    """Says that the rows have a watermark of this name; they pass as they are.

    What moves it is an ``Observe`` beside the way of the rows.
    """

    keeps_rows: ClassVar[bool] = True
    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    passes: ClassVar[bool] = True
    known_by_name: ClassVar[bool] = True

    name: str
    column: str
    hidden: Hidden
    """What is kept of it."""

    @property
    def title(self) -> str:
        """As users write it."""
        return "with_watermark"

    @property
    def watermark(self) -> tuple[str, str]:
        """Its own."""
        return self.name, self.hidden.name or ".".join(self.hidden.belongs)

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's.

        Raises:
            DeclarationError: When the column is no event time.
        """
        from atoll.steps.windows.event_time import check_event_time

        check_event_time(inputs[0], self.column, self.title, self.place)
        return inputs[0]

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The batches."""
        return batches
