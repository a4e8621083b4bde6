"""The parts of a module on a service: depots, PStates and topologies.

Each has the methods of what an app has in its process, with the same arguments and errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Self

from atoll import schema
from atoll.client.asking.module import ModuleCalls, Told, member
from atoll.client.following import RemoteFollowed, values_of
from atoll.client.frames import RecordsTold, ValuesTold, start_text
from atoll.client.producing import ARROW_STREAM, Producers, Written
from atoll.client.wire import Wire
from atoll.codec.records.codec import RecordCodec
from atoll.codec.records.refusals import Checked
from atoll.ddl import parse_ddl
from atoll.depot.append.checking import checked_parts
from atoll.depot.files import FileSource
from atoll.depot.receipt import Receipt
from atoll.depot.tail import TailBatch
from atoll.errors import NotFoundError, UsageError
from atoll.markup import Rows
from atoll.views.typed import Shape

if TYPE_CHECKING:
    from atoll.depot import Producer
    from atoll.depot.depot import OnInvalid
    from atoll.depot.tail_start import Start
    from atoll.path import Path
    from atoll.views.export.export import Export

__all__ = [
    "RemoteDepot",
    "RemotePState",
    "RemoteTopology",
]


class RemoteDepot:
    """A depot of a service, as ``app.depot`` gives one. Safe from any thread.

    Made by ``depot`` of what :func:`atoll.connect` returned.
    """

    def __init__(
        self,
        wire: Wire,
        calls: ModuleCalls,
        described: Mapping[str, Any],
        producers: Producers,
        row_class: type | None = None,
    ) -> None:
        self._wire = wire
        self._calls = calls
        self._producers = producers
        self._row_class = row_class
        self.name: str = described["name"]
        self.partitions: int = described["partitions"]
        self.codec = RecordCodec(parse_ddl(described["ddl"]))

    def __repr__(self) -> str:
        """Its name and where: ``<depot 'pairs' at http://...>``."""
        return f"<depot {self.name!r} at {self._wire.address.url}>"

    def append(
        self, data: Any, on_invalid: OnInvalid = "none", producer: Producer | None = None
    ) -> Receipt:
        """Append records; when this returns they are durable, and stored once.

        An append whose answer was lost is sent again: it has a producer's name and number, one of
        this client's own unless the caller gives one.

        Args:
            data: What ``Depot.append`` takes.
            on_invalid: ``"none"``: store nothing of the call when a record does not fit the
                schema. ``"keep"``: store the others.
            producer: Who appends, and the append's number.

        Raises:
            RecordsRefusedError: With ``"none"``, when a record does not fit.
            ProducerError: When the number does not fit the producer's earlier ones.
            ServiceUnreachableError: When no answer came: it is not known then whether it is stored.
        """
        return self._append(checked_parts(data, self.codec, self.name), on_invalid, producer)

    def append_file(
        self,
        path: FilePath | str,
        format: str | None = None,  # noqa: A002  # the word users know
        on_invalid: OnInvalid = "none",
        producer: Producer | None = None,
    ) -> Receipt:
        """Append a file's records as one call, all or nothing, in bounded memory.

        Args:
            path: JSON lines, CSV (both also gzipped), Parquet or Arrow.
            format: ``jsonl``, ``csv``, ``parquet``, ``arrow``; by default the name's ending tells.
            on_invalid: As for :meth:`append`; refusals name the file's lines.
            producer: As for :meth:`append`.
        """
        return self._append(FileSource(path, self.codec, format), on_invalid, producer)

    def start_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the oldest offset that is still there."""
        return tuple(self._wire.run(self._about("start_offsets")))

    def end_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the offset after the last acknowledged record."""
        return tuple(self._wire.run(self._about("end_offsets")))

    def everything(self) -> Receipt:
        """A receipt of all that it holds now, as if one append had stored it."""
        return self._wire.run(self._calls.everything(self.name))

    def tail(
        self,
        start: Start = None,
        *,
        partition: int | None = None,
        follow: bool = True,
        batch_records: int = 10_000,
    ) -> RemoteFollowed[TailBatch]:
        """The records from somewhere on, batch by batch, live if wished.

        It goes on by itself, behind what came last, when the connection was lost.

        Args:
            start: As of ``Depot.tail``.
            partition: The one depot partition to read; all of them when None.
            follow: Whether to wait for new records at the end.
            batch_records: How many records a batch has at most.

        Raises:
            UsageError: When the start or the depot partition cannot be.
            ReceiptError: When the start is a token of another depot, or none.
            DepotError: When an offset lies behind all that the depot holds.
        """
        spans = self._wire.run(self._calls.get("depots", self.name, read=_spans))
        return RemoteFollowed(
            self._wire,
            records_told(
                self._calls, self.name, start, spans, self._row_class,
                partition=partition, follow=follow, batch_records=batch_records,
            ),
        )  # fmt: skip

    def _about(self, what: str) -> Any:
        return self._calls.get("depots", self.name, read=member(what))

    def _append(
        self, batches: Iterable[Checked], on_invalid: str, producer: Producer | None
    ) -> Receipt:
        written = Written(batches, self.codec, self.name, on_invalid)
        numbered = (
            self._producers.numbered(self.name)
            if producer is None
            else contextlib.nullcontext(producer)
        )
        with contextlib.closing(written), numbered as named:
            call = self._calls.append(self.name, written.pieces, ARROW_STREAM, on_invalid, named)
            return with_refusals(self._wire.run(call), written)


class RemotePState:
    """A PState of a service, as ``app.pstate`` gives one by its name. Safe from any thread.

    Values come as they are, of the types that the PState holds. Made by ``pstate`` of what
    :func:`atoll.connect` returned.
    """

    def __init__(
        self, wire: Wire, calls: ModuleCalls, spec: Shape, as_of: int | None = None
    ) -> None:
        self._wire = wire
        self._calls = calls
        self._as_of = as_of
        self.spec = spec
        self.name = spec.name

    def __repr__(self) -> str:
        """What it is, no values: ``<PState 'counts' of topology 'mb': Map(str, int)>``."""
        spec = self.spec
        return f"<PState {spec.name!r} of topology {spec.topology!r}: {spec.node!r}>"

    def get(self, *keys: object, default: Any = None) -> Any:
        """The value at the keys, one per map on the way; no keys: the whole of it.

        Args:
            *keys: ``get("a", "b")`` for a map of maps.
            default: What to return when there is no such entry.

        Raises:
            PathError: When a key is of the wrong type, or there are more keys than maps.
        """
        return self._wire.run(self._calls.value(self.name, keys, default, self._as_of))

    def select(self, path: Path) -> list[Any]:
        """All values that the path leads to.

        Raises:
            PathError: When the path does not fit the schema, or holds a function.
        """
        return Rows(
            self._wire.run(self._calls.select(self.name, path, one=False, as_of=self._as_of))
        )

    def select_one(self, path: Path) -> Any:
        """The one value that the path leads to.

        Raises:
            PathError: When it leads to none or to several, or does not fit the schema.
        """
        return self._wire.run(self._calls.select(self.name, path, one=True, as_of=self._as_of))

    def iterate(self, path: Path) -> Iterator[Any]:
        """The values that the path leads to, one after the other, all as of one commit.

        They are read and sent as the iteration goes on.

        Raises:
            PathError: When the path does not fit the schema; before anything is read.
            UsageError: When the commit was dropped on the way.
            StateError: When the connection was lost on the way.
        """
        return values_of(self._wire, ValuesTold(self._calls.iterate(self.name, path, self._as_of)))

    def after(self, *receipts: Told, timeout_seconds: float = 60.0) -> Self:
        """The PState itself, once it shows what came of what was appended.

        Raises:
            ReceiptError: When the PState never shows it.
            WaitTimeoutError: When it takes longer.
            UsageError: When this is the PState as of an earlier microbatch.
        """
        if self._as_of is not None:
            raise UsageError(
                f"an earlier state of PState {self.name!r} never changes",
                hint="ask the PState itself, not what as_of gave",
            )
        self._wire.run(self._calls.wait_shown(self.spec.topology, receipts, timeout_seconds))
        return self

    def as_of(self, microbatch: int) -> RemotePState:
        """The PState as it was after an earlier microbatch.

        Raises:
            UsageError: When it is too long ago, or has not been committed.
        """
        self._wire.run(self._calls.readable(self.name, microbatch))
        return RemotePState(self._wire, self._calls, self.spec, microbatch)

    def export(self, *, field: str | None = None) -> Export:
        """The whole PState as of one commit, for other tools.

        Raises:
            UsageError: When there are several kinds of values and it is not said which.
        """
        from atoll.client.exports import remote_export

        told = {} if self._as_of is None else {"as_of": str(self._as_of)}
        return remote_export(self._wire, self._calls, self.name, field, told)

    def export_changes(
        self, after: int | None = None, up_to: int | None = None, *, field: str | None = None
    ) -> Export:
        """What commits wrote to the PState, for other tools.

        Raises:
            UsageError: When they are not all kept, or there are several kinds of values.
        """
        from atoll.client.exports import remote_export

        given = {"after": after, "up_to": up_to}
        told = {name: str(value) for name, value in given.items() if value is not None}
        return remote_export(self._wire, self._calls, self.name, field, {**told, "changes": "true"})

    def _repr_html_(self) -> str:
        """What it is, for a notebook; no values."""
        from atoll.markup import table

        spec = self.spec
        row = [spec.name, spec.topology, str(schema.to_json(spec.node)), spec.vnode_count]
        return table(["PState", "topology", "schema", "vnodes"], [row])


class RemoteTopology:
    """A topology of a service, as ``app.topology`` gives one."""

    def __init__(self, wire: Wire, calls: ModuleCalls, name: str) -> None:
        self._wire = wire
        self._calls = calls
        self.name = name

    def __repr__(self) -> str:
        """Its name: ``<topology 'mb'>``."""
        return f"<topology {self.name!r}>"

    def wait(self, *receipts: Told, timeout_seconds: float = 60.0) -> int:
        """Wait until readers see what it makes of what was appended; the microbatch they see."""
        return self._wire.run(self._calls.wait_shown(self.name, receipts, timeout_seconds))

    def wait_processed(self, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until so many records were processed over the topology's life, and are visible."""
        self._wire.run(self._calls.wait_topology(self.name, {"processed": count}, timeout_seconds))

    def wait_filled(self, timeout_seconds: float = 60.0) -> None:
        """Wait until all that is filled from the past has joined, and is readable."""
        self._wire.run(self._calls.wait_topology(self.name, {"filled": True}, timeout_seconds))

    def pause(self) -> None:
        """Start no further microbatch; returns when the running one has ended."""
        self._wire.run(self._calls.act(self.name, "pause"))

    def resume(self) -> None:
        """Go on after a pause or a failure."""
        self._wire.run(self._calls.act(self.name, "resume"))

    def rollback(self, to_microbatch: int, *, keep_appended: bool = False) -> None:
        """Go back to the state as it was after an earlier microbatch, and pause."""
        data = {"to_microbatch": to_microbatch, "keep_appended": keep_appended}
        self._wire.run(self._calls.act(self.name, "rollback", data))

    def rollback_plan(self, to_microbatch: int) -> dict[str, Any]:
        """What :meth:`rollback` to a microbatch would do now; changes nothing."""
        found: dict[str, Any] = self._wire.run(self._calls.rollback_plan(self.name, to_microbatch))
        return found

    def checkpoint(self) -> int:
        """Write all state that changed to checkpoints, now; the commit that holds them."""
        read = member("checkpoint")
        found: int = self._wire.run(self._calls.act(self.name, "checkpoint", read=read))
        return found

    def status(self) -> dict[str, Any]:
        """Id, version, step, lag by depot partition, durations by step, error and warnings."""
        found: dict[str, Any] = self._wire.run(self._calls.get("topologies", self.name))
        return found

    @property
    def microbatch_state(self) -> dict[str, Any]:
        """What it is at: id, version, phase, ranges, since when."""
        found: dict[str, Any] = self._wire.run(
            self._calls.get("topologies", self.name, "microbatch")
        )
        return found

    def recent_microbatches(self) -> list[dict[str, Any]]:
        """The last microbatches that its process committed, oldest first."""
        found: list[dict[str, Any]] = self._wire.run(self._calls.recent(self.name))
        return Rows(found)


def shape_of(described: Mapping[str, Any]) -> Shape:
    """What a PState is, as a service describes it."""
    node = schema.from_json(described["schema"])
    return Shape(described["name"], node, described["topology"], described["vnode_count"])


def records_told(  # noqa: PLR0913 - each is an argument of a tail
    calls: ModuleCalls,
    depot: str,
    start: Start,
    spans: list[tuple[int, int]],
    row_class: type | None,
    *,
    partition: int | None,
    follow: bool,
    batch_records: int,
) -> RecordsTold:
    """How a tail is asked for."""
    if batch_records < 1:
        raise UsageError(f"a batch cannot have {batch_records} records", hint="choose 1 or more")
    params = {
        "follow": "true" if follow else "false",
        "batch_records": str(batch_records),
        "format": "values",
        **({} if partition is None else {"partition": str(partition)}),
    }
    call = calls.get("depots", depot, "records", params=params)
    return RecordsTold(call, start_text(calls.name, depot, start, spans), row_class)


def with_refusals(receipt: Receipt, written: Written) -> Receipt:
    """The receipt with what was refused here already."""
    import msgspec

    if not written.refusals.count:
        return receipt
    kept, count = written.all_refused(receipt.refusals, receipt.refused_count)
    return msgspec.structs.replace(receipt, refusals=kept, refused_count=count)


def found_name(name: str, known: Iterable[str], kind: str, module: str) -> str:
    """The name, where there is such a part.

    Raises:
        NotFoundError: When there is none.
    """
    listed = sorted(known)
    if name not in listed:
        raise NotFoundError(
            f"module {module!r} has no {kind} {name!r}",
            hint="it has " + (", ".join(listed) or "none"),
        )
    return name


def _spans(data: Mapping[str, Any]) -> list[tuple[int, int]]:
    return list(zip(data["start_offsets"], data["end_offsets"], strict=True))
