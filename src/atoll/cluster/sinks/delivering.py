"""Writes the parcels of one sink, each once and in order, whoever has written those before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from atoll.cluster.sinks.deciding import next_parcel
from atoll.errors import DamageError, SinkError
from atoll.microbatch.parcels.rows import rows_of
from atoll.sinks.interface import Guarantee, Opening, SinkParcel
from atoll.steps.write_to.declare import sinks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from atoll.microbatch.parcels.box import Parcel
    from atoll.microbatch.parcels.sink_box import SinkBox, Taken
    from atoll.sinks.interface import Sink, SinkRows, SinkWriter
    from atoll.topology.graph import Graph
    from atoll.topology.operator import Operator


@dataclass(frozen=True)
class BoundSink:
    """A sink of a deployed module.

    Attributes:
        name: What the sink is called.
        sink: As it was declared.
        rows: What rows it gets.
    """

    name: str
    sink: Sink
    rows: SinkRows


def bound_sinks(graph: Graph, schemas: Mapping[Operator, pa.Schema]) -> list[BoundSink]:
    """The sinks of a topology, given the columns after each operator."""
    return [
        BoundSink(name, step.sink, step.rows(schemas[step.inputs[0]]))
        for name, step in sinks_of(graph).items()
    ]


class SinkDelivery:
    """Brings a sink what waits for it. For one thread at a time.

    Args:
        box: What it is to get.
        bound: The sink.
        epoch: The life of the module.
        check: Raises FencedError when another life has taken over.
        now_ms: The clock.
    """

    def __init__(
        self,
        box: SinkBox,
        bound: BoundSink,
        epoch: int,
        check: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        """Nothing is opened before there is something to write."""
        self.box = box
        self.bound = bound
        self.taken: Taken = box.taken()
        self._epoch = epoch
        self._check = check
        self._now_ms = now_ms
        self._writer: SinkWriter | None = None

    def deliver(self, over: Callable[[], bool] = lambda: False) -> int:
        """Write all that waits; returns how many parcels.

        Args:
            over: Whether to stop after the parcel at hand.

        Raises:
            FencedError: When another life has taken over.
            Exception: What the sink raised. Then it is closed, and opened anew the next time.
        """
        count = 0
        try:
            while not over() and self._waits():
                self._check()
                writer = self._opened()
                number = self.taken.number + 1
                if not self.box.objects.exists(number):
                    break  # the target held it, and its answer was lost
                writer.write(self._parcel(number))
                self.taken = self.box.take(number, self._now_ms())
                count += 1
        except BaseException:
            self.close()
            raise
        return count

    def close(self) -> None:
        """Let go of the target."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    # Inside ---------------------------------------------------------------------------------------

    def _waits(self) -> bool:
        """Whether there is a parcel to write.

        Raises:
            DamageError: When there are only later ones.
        """
        number = self.taken.number + 1
        if self.box.objects.exists(number):
            return True
        last = self.box.objects.latest() or 0
        if last <= self.taken.number:
            return False
        if self.box.objects.exists(number):  # made just now
            return True
        raise DamageError(
            f"parcel {number} for sink {self.bound.name!r} is missing, and later ones wait "
            "behind it",
            hint="restore it from a copy of the root",
            file=self.box.objects.name(number),
        )

    def _opened(self) -> SinkWriter:
        if self._writer is not None:
            return self._writer
        self.box.tidy()
        sink = self.bound.sink
        self._writer = sink.open(Opening(self.box.identity(), self._epoch, self.bound.rows))
        held = self._writer.last_written()
        if held is None and sink.guarantee is Guarantee.EXACTLY_ONCE:
            raise SinkError(
                f"sink {self.bound.name!r} is said to be exactly once, and does not say what the "
                "target holds",
                hint="let last_written of its writer return a number",
            )
        last = self.box.objects.latest() or 0
        first = next_parcel(held, self.taken.number, last)
        for number in range(self.taken.number + 1, first):
            self.taken = self.box.take(number, self._now_ms())
        return self._writer

    def _parcel(self, number: int) -> SinkParcel:
        made = self.box.read(number)
        return SinkParcel(
            number,
            made.commit,
            made.timeline,
            made.sent_at_ms,
            made.records,
            self._schema(made),
            partial(self._batches, made),
        )

    def _schema(self, made: Parcel) -> pa.Schema:
        """The columns of a parcel: all its files are of one microbatch, so they have the same."""
        if not made.files:
            return self.bound.rows.schema
        with pa.OSFile(str(self.box.store.file(made.files[0].name))) as file:
            return pa.ipc.open_file(file).schema

    def _batches(self, made: Parcel) -> Iterator[pa.RecordBatch]:
        for checked in rows_of(self.box.store, made.files):
            yield checked.batch
