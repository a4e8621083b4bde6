"""What a sink is to Atoll, and what Atoll promises a sink.

What a commit has for a sink is a *parcel*: its rows, and a number. The numbers of one sink begin
at 1 and have no gap, whatever becomes of the topology: restarts, other units, rollbacks. A
microbatch without rows for the sink makes no parcel. Parcels are kept until the sink has taken
them and never change, so any of them can be written again: each time it is the same rows.

That is all that exactly-once needs: a target that keeps the number of the last parcel *in the same
transaction as its rows* takes each parcel once, whoever writes it and however often. A target that
cannot is written at least once, with a key per row or request by which it can tell repetitions.

    commit N --> parcel k --> writer.write(parcel k) --> noted as taken, rows dropped
                                  ^       |
                                  |       v  the process dies here: its answer is lost
               next life: writer.last_written() == k, so k + 1 is next

Two writers of one sink can be alive for some seconds: a process that hangs, and the one that took
over. Both write the same parcels, so nothing has to stop the first one but the number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal

from atoll.errors import SinkError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Guarantee", "Opening", "Sink", "SinkParcel", "SinkRows", "SinkWriter"]


class Guarantee(StrEnum):
    """How often a row can be in the target."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True)
class SinkRows:
    """What rows a sink gets.

    Attributes:
        schema: Their columns.
        keys: Where they are the changes of a PState, the columns that name an entry; none for a
            PState that is one value. Empty for the rows of any other stream.
        of: ``rows`` of any stream; ``entries`` of a PState: the other columns are ``old`` and
            ``new``, null where there is no such entry before or after; or ``elements`` of a set,
            the last key: ``old`` and ``new`` say whether it is in the set. Each entry or element
            comes at most once in a parcel.
    """

    schema: pa.Schema
    keys: tuple[str, ...] = ()
    of: Literal["rows", "entries", "elements"] = "rows"

    @property
    def changes(self) -> bool:
        """Whether they are the changes of a PState."""
        return self.of != "rows"


@dataclass(frozen=True)
class Opening:
    """For whom a sink is opened.

    Attributes:
        identity: ``module/topology/sink/token``: this sink of this root, and no other one ever,
            though it has the same names elsewhere. What a target keeps, it keeps under it.
        epoch: The life of the module; a later one has a higher number.
        rows: What rows come.
    """

    identity: str
    epoch: int
    rows: SinkRows


@dataclass(frozen=True)
class SinkParcel:
    """The rows that one commit has for a sink.

    Attributes:
        number: Its place among the sink's parcels: 1, 2, 3, without a gap.
        microbatch: The id of the microbatch. Ids rise, with gaps; after a rollback they begin
            again lower, under a higher timeline.
        timeline: Its timeline.
        sent_at_ms: When it was made, in milliseconds since 1970.
        records: How many rows it has; 0 is possible.
        schema: Their columns: those of the version of the module that made it, which an update
            may have changed since :class:`Opening`.
    """

    number: int
    microbatch: int
    timeline: int
    sent_at_ms: int
    records: int
    schema: pa.Schema
    _read: Callable[[], Iterable[pa.RecordBatch]]

    def is_next(self, last: int, target: str, hint: str) -> bool:
        """Whether it is to be written after the last one; False when the target holds it already.

        Args:
            last: The number that the target holds.
            target: Where that is, for people.
            hint: What to do where parcels between the two are missing.

        Raises:
            SinkError: When some are.
        """
        if self.number > last + 1:
            raise SinkError(f"parcel {self.number} cannot follow {last} in {target}", hint=hint)
        return self.number > last

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, a batch in memory at a time; may be read again.

        Raises:
            DamageError: When what was kept is not what was written.
        """
        yield from self._read()

    def table(self) -> pa.Table:
        """All rows in memory."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema)


class SinkWriter(ABC):
    """Writes to one target. Used by one thread; made by :meth:`Sink.open`."""

    @abstractmethod
    def last_written(self) -> int | None:
        """The number of the last parcel that the target holds; 0 for none.

        Asked once, before the first write. It must be what the *target* says, now: whoever asked
        for the write before may have died before the answer. None when the target keeps no
        number; then Atoll goes by its own note, and the sink is at least once.
        """

    @abstractmethod
    def write(self, parcel: SinkParcel) -> None:
        """Write a parcel whole or not at all; when this returns, it is durable.

        A number that the target holds already changes nothing, and is no error. One that is not
        the next one is refused. The classic mistake is to look at the number first and write
        later: another writer may have come in between, so number and rows are one transaction.

        Raises:
            SinkError: When the target refuses; it is written again later, from the beginning, by
                a new writer. Any other exception means the same.
        """

    def close(self) -> None:
        """Let go of the target. Also called after a failure; nothing is called afterwards."""
        return


class Sink(ABC):
    """Where rows go: declared with a stream, opened by the process that runs the module.

    It is a value: building one connects to nothing. Tasks never see it.
    """

    kind: ClassVar[str]
    """Its name in the entry-point group ``atoll.sinks``, and in a status."""

    guarantee: ClassVar[Guarantee]
    """What it promises for every target that it accepts."""

    @property
    @abstractmethod
    def target(self) -> str:
        """Where it writes, for people; never a password."""

    @property
    def signature(self) -> Mapping[str, str]:
        """What may not change as long as the sink has its name, beside its kind.

        Not where the target is: a server may move with all that it holds. Whether it is the same
        one is seen by the number it holds.
        """
        return {}

    @abstractmethod
    def check(self, rows: SinkRows) -> None:
        """Hold that such rows can be written, by their columns alone; asks nobody.

        Raises:
            SinkError: When they cannot; the deployment is refused with it.
        """

    @abstractmethod
    def open(self, opening: Opening) -> SinkWriter:
        """Connect, and make what the target needs if it is not there.

        Raises:
            SinkError: When the target cannot be reached, or is another sink's. It is tried again.
        """
