"""An async function per row: ``stream.map_async(ask, emits="answer string", at_once=20)``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from atoll.durations import parse_millis
from atoll.errors import DeclarationError
from atoll.steps.rows.calling import CallingOperator
from atoll.topology.flow import Flow, after
from atoll.topology.usercode import placed

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.operator import Makes
    from atoll.topology.rows import Row
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class MapAsync(CallingOperator):
    """Awaits a function of each row, a bounded number at once; what it gives keeps their order."""

    makes: ClassVar[Makes] = "one"
    in_queries: ClassVar[bool] = False
    instead: ClassVar[str] = "call what it calls in Python: map(function)"

    function: Callable[[Row], Awaitable[Any]]
    at_once: int
    timeout_seconds: float

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch; one event loop for all of a task."""
        from atoll.steps.rows.awaiting import Awaiting
        from atoll.steps.rows.calls import call_rows, one_of

        going_on = rejects is not None
        with Awaiting(self, self.at_once, self.timeout_seconds, going_on=going_on) as awaiting:
            for batch in batches:
                answers = awaiting.answers(self.function, batch)

                def answer(_row: Row, answers: Iterator[Any] = answers) -> tuple[Any]:
                    return one_of(self, next(answers))

                yield call_rows(self, batch, answer, rejects)


def map_async(  # each says one thing of the calls
    stream: Flow,
    function: Callable[..., Any],
    emitted: pa.Schema,
    at_once: int,
    timeout: object,
    place: str,
) -> Flow:
    """Add a :class:`~atoll.steps.rows.map_async.MapAsync`."""
    with placed(place):
        timeout_ms = parse_millis(timeout, "the timeout of map_async")
    if type(at_once) is not int or at_once < 1:
        raise DeclarationError(
            f"map_async at_once={at_once!r} cannot be",
            hint="say how many calls may be under way in a task: at_once=16",
            declared=place,
        )
    step = MapAsync((stream.operator,), place, function, emitted, at_once, timeout_ms / 1_000)
    return after(stream.graph, step)
