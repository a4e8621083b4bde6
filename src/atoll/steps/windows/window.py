"""The windows of event time that a row lies in: ``stream.window("at", "10 minutes")``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import DeclarationError
from atoll.topology.operator import BatchOperator

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from atoll.topology.times import Clock, Times
    from atoll.topology.usercode import Rejects

WINDOW_START = "window_start"
WINDOW_END = "window_end"
"""The columns that a window adds, of the type of the event time."""


@dataclass(frozen=True, eq=False)
class Window(BatchOperator):
    """One row per open window that a row lies in; or the rows that lie in none, as they are.

    A window is open while the watermark has not passed its end and ``lateness_ms`` more. Without
    a ``clock`` all are open. A ``slide_ms`` of 0 means sessions: each row has a window of its own,
    from its time on.
    """

    runs_own_code: ClassVar[bool] = True

    column: str
    size_ms: int
    slide_ms: int
    start_ms: int
    lateness_ms: int
    clock: Clock | None
    late: bool = False
    """Whether it passes the rows that lie in no open window."""
    closed_ms: int | None = None
    """Windows that end up to then are closed in this microbatch."""
    label: str | None = None
    """What the user called it."""

    @property
    def title(self) -> str:
        """As users write it."""
        return "window" if self.slide_ms else "session_window"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The input's columns, and those of the window.

        Raises:
            DeclarationError: When the column is no event time, or there are such columns already.
        """
        import pyarrow as pa

        from atoll.steps.windows.event_time import check_event_time

        kind = check_event_time(inputs[0], self.column, self.title, self.place)
        if self.late:
            return inputs[0]
        for name in (WINDOW_START, WINDOW_END):
            if name in inputs[0].names:
                raise DeclarationError(
                    f"{self.title} adds a column {name!r}, which the rows before it have already",
                    hint="rename theirs with select or map",
                    declared=self.place,
                )
        return pa.schema([*inputs[0], pa.field(WINDOW_START, kind), pa.field(WINDOW_END, kind)])

    def at(self, times: Times) -> Window:
        """The step while the watermark is where it is."""
        shown = None if self.clock is None else times.of(self.clock)
        return self if shown is None else replace(self, closed_ms=shown - self.lateness_ms)

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; rows stay in their order, a row's windows in that of time."""
        import numpy as np
        import pyarrow as pa

        from atoll.steps.windows.event_time import event_column, event_millis
        from atoll.topology.rows import with_origins, without_origins

        for batch in batches:
            millis, valid = event_millis(batch.column(self.column))
            starts = self._starts(millis)
            ends = starts + self.size_ms
            lies = valid[:, None] & (millis[:, None] < ends)
            if self.closed_ms is not None:
                lies &= ends > self.closed_ms
            if self.late:
                rows = np.flatnonzero(~lies.any(axis=1))
                yield batch.take(pa.array(rows))
                continue
            rows = np.nonzero(lies)[0]
            plain, origins = without_origins(batch)
            kind = plain.schema.field(self.column).type
            at = pa.array(rows)
            columns = [column.take(at) for column in plain.columns]
            columns += [event_column(starts[lies], kind), event_column(ends[lies], kind)]
            made = pa.RecordBatch.from_arrays(columns, schema=self.schema((plain.schema,)))
            yield with_origins(made, None if origins is None else origins.take(at))

    def _starts(self, millis: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row the starts of the windows that may hold it, ascending."""
        import numpy as np

        if not self.slide_ms:
            return millis[:, None]
        count = -(-self.size_ms // self.slide_ms)
        last = millis - (millis - self.start_ms) % self.slide_ms
        return last[:, None] - np.arange(count - 1, -1, -1) * self.slide_ms
