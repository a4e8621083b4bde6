"""Feeds a depot from a source, one append after the other, each of them exactly once.

A turn: say what the append takes (a plan, durable), read exactly that, append it under the plan's
number. Killed anywhere, the next life asks the depot which number it holds, and goes on there.
Records that do not fit are set aside under the same number before the others are stored, so that
they, too, are there once however often the turn is taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from atoll.codec.records.refusals import Checked
from atoll.depot.depot import Depot
from atoll.depot.producers.table import Producer
from atoll.errors import ProducerError
from atoll.sources.base import Lag, NoLongerThereError, Position, Reader, Reads, Source
from atoll.sources.kept import SourceLog, Stand
from atoll.sources.noting import NotingCodec


@dataclass(frozen=True)
class Fed:
    """What one turn appended."""

    records: int
    refused: int


class Feeder:
    """One source and its depot. Used by one thread at a time.

    Args:
        source: As declared.
        depot: What it feeds, open.
        set_aside: Where records go that do not fit, open; None when the first stops the source.
        log: What is kept of it.
        now_ms: The clock.
    """

    def __init__(
        self,
        source: Source,
        depot: Depot,
        set_aside: Depot | None,
        log: SourceLog,
        now_ms: Callable[[], int],
    ) -> None:
        self.source = source
        self._depot = depot
        self._set_aside = set_aside
        self._log = log
        self._now_ms = now_ms
        self._reader: Reader | None = None
        self._stand: Stand | None = None
        self._left = 0
        """The plan that is left as it is, since what it says is not there any more."""

    def turn(self) -> Fed | None:
        """Take one append; None when there is nothing new.

        Raises:
            SourceError: When the source cannot be read. Nothing of the turn is stored then.
            FencedError: When another life owns the depot.
            AtollError: When depot or storage refuse.
        """
        try:
            return self._turn()
        except BaseException:
            self.close()
            raise

    def lag(self) -> Lag | None:
        """What there was to be read at the last look; None before the first."""
        if self._reader is None or self._stand is None:
            return None
        return self._reader.lag(self._stand.position)

    def shown(self) -> dict[str, Any] | None:
        """How far it is, in the words of its kind; None before the first look."""
        if self._reader is None or self._stand is None:
            return None
        return dict(self._reader.shown(self._stand.position))

    def close(self) -> None:
        """Let go of what is open; the next turn looks at everything anew."""
        reader, self._reader, self._stand = self._reader, None, None
        if reader is not None:
            reader.close()

    def _turn(self) -> Fed | None:
        reader = self._reader or self.source.open(self._depot.spec.schema)
        self._reader = reader
        stand = self._stand or self._log.stand(
            self._depot.last_sequence(self._log.producer_id), reader
        )
        self._stand = stand
        number, reads = stand.pending or (0, None)
        if number <= self._left:
            reads = None
        if reads is None:
            reads = reader.next(stand.position)
            if reads is None:
                return None
            number = self._log.plan(stand, reads, self._now_ms())
            stand.pending = (number, reads)
        try:
            fed = self._append(reader, number, reads)
        except NoLongerThereError:
            self._left = number
            raise
        self._go_on(stand, reader, number, reads)
        return fed

    def _go_on(self, stand: Stand, reader: Reader, number: int, reads: Reads) -> None:
        position: Position = reader.after(stand.position, reads)
        stand.number, stand.position, stand.pending = number, position, None
        self._log.stored(stand)

    def _append(self, reader: Reader, number: int, reads: Reads) -> Fed:
        producer = Producer(self._log.producer_id, number, gaps=True)
        codec = NotingCodec(self._depot.spec.schema, sets_aside=self._set_aside is not None)

        def records() -> Iterator[Checked]:
            yield from reader.read(reads, codec)
            if codec.refused and self._set_aside is not None:
                self._put_aside(self._set_aside, producer, codec)

        receipt = self._depot.append_stream(records(), on_invalid="keep", producer=producer)
        return Fed(receipt.count, len(codec.refused))

    def _put_aside(self, aside: Depot, producer: Producer, codec: NotingCodec) -> None:
        rows = [
            {
                "operator": repr(self.source),
                "microbatch": producer.sequence,
                "depot": self._depot.spec.name,
                "error": each.reason,
                "line": f"{each.place}:{each.line}",
                "row": each.row,
            }
            for each in codec.refused
        ]
        try:
            aside.append(rows, producer=producer)
        except ProducerError as error:
            if error.context["problem"] != "conflict":
                raise
            raise NoLongerThereError(
                "what was set aside of an append in an earlier try is other now",
                hint="nothing need be done: it is planned anew",
                problem="changed",
                place=self.source.place,
            ) from error
