"""``atoll tail``."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Self

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, UrlOption
from atoll.cli.output import note
from atoll.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.cli.client import Client


class TailFormat(StrEnum):
    """How records are written to stdout: as ``atoll append`` reads them."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


def tail(  # each is an option
    module: ModuleName,
    depot: Annotated[str, typer.Argument(help="Name of the depot.", show_default=False)],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where to begin: beginning, end, an offset, a time (2026-01-31T12:00:00Z), or a "
            "position.",
        ),
    ] = "beginning",
    partition: Annotated[
        int | None,
        typer.Option(help="The one depot partition to read.", min=0, show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Wait for new records at the end.")
    ] = False,
    format_: Annotated[
        TailFormat, typer.Option("--format", help="How records are written.")
    ] = TailFormat.JSON,
    offsets: Annotated[
        bool,
        typer.Option("--offsets", help="Show depot partition and offset of each record, too."),
    ] = False,
    count: Annotated[
        int | None, typer.Option(help="End after so many records.", min=1, show_default=False)
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Read a depot's records from somewhere on; with --follow new ones as they come."""
    from atoll.cli.client import Client

    if offsets and format_ is TailFormat.ARROW:
        raise UsageError("--offsets is for json and csv", hint="leave it out, or choose json")
    params = {"from": start, "follow": "true" if follow else "false", "format": "arrow"}
    if partition is not None:
        params["partition"] = str(partition)
    reached = ""
    with Client(url) as client:
        try:
            with _opened(client, module, depot, params) as (schema, told):
                writer = _WRITERS[format_](schema, offsets=offsets)
                with writer:
                    for batch in _up_to(told, count):
                        writer.write(batch)
                        sys.stdout.flush()
                        reached = batch.position
        finally:
            if follow and reached:
                note(f"go on with --from {reached}")


class _Batch(NamedTuple):
    """Records of one depot partition, and the position behind them."""

    partition: int
    offset: int
    position: str
    records: pa.RecordBatch


@contextmanager
def _opened(
    client: Client, module: str, depot: str, params: dict[str, str]
) -> Iterator[tuple[pa.Schema, Iterator[_Batch]]]:
    """The depot's schema, and its records as they come."""
    place = ("modules", module, "depots", depot, "records")
    with client.arrow(*place, params=params) as reader:
        yield reader.schema, _batches(reader)


def _batches(reader: pa.RecordBatchStreamReader) -> Iterator[_Batch]:
    """The batches that have records; what else the service says is in their metadata."""
    from atoll.cli.client import error_of

    while True:
        try:
            batch, about = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        if b"problem" in about:
            raise error_of(json.loads(about[b"problem"]))
        if batch.num_rows:
            partition, offset = int(about[b"partition"]), int(about[b"offset"])
            yield _Batch(partition, offset, about[b"position"].decode(), batch)


def _up_to(batches: Iterator[_Batch], count: int | None) -> Iterator[_Batch]:
    """The batches up to so many records, the last of them cut where it has more."""
    left = count
    for batch in batches:
        if left is None:
            yield batch
            continue
        taken = batch.records.slice(0, left)
        end = batch.offset + taken.num_rows
        position = _moved(batch.position, batch.partition, end)
        yield batch._replace(records=taken, position=position)
        left -= taken.num_rows
        if left == 0:
            return


def _moved(position: str, partition: int, offset: int) -> str:
    """The position with another offset in one depot partition."""
    from atoll.depot.receipt import Awaited, awaited

    at = awaited(position)
    return Awaited(at.module, at.depot, {**at.ends, partition: offset}).token


class _Writer(Protocol):
    """Writes records to stdout."""

    def __init__(self, schema: pa.Schema, *, offsets: bool) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def write(self, batch: _Batch) -> None: ...


class _Lines:
    """A record a line: JSON as the service renders it."""

    def __init__(self, schema: pa.Schema, *, offsets: bool) -> None:
        self.names = schema.names
        self.offsets = offsets

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, batch: _Batch) -> None:
        for offset, record in self.rendered(batch):
            shown = {"partition": batch.partition, "offset": offset, "record": record}
            line = json.dumps(shown if self.offsets else record, ensure_ascii=False)
            sys.stdout.write(line + "\n")

    @staticmethod
    def rendered(batch: _Batch) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each record's offset and values, with nothing in them but what JSON has."""
        from atoll.python_values import python_rows
        from atoll.server.render import render

        for offset, record in enumerate(python_rows(batch.records), batch.offset):
            yield offset, {name: render(value) for name, value in record.items()}


class _Cells(_Lines):
    """CSV with a header; a missing value is an empty cell, a nested one is JSON."""

    def __init__(self, schema: pa.Schema, *, offsets: bool) -> None:
        super().__init__(schema, offsets=offsets)
        self._writer = csv.writer(sys.stdout, lineterminator="\n")

    def __enter__(self) -> Self:
        where = ("_partition", "_offset") if self.offsets else ()
        self._writer.writerow([*where, *self.names])
        return self

    def write(self, batch: _Batch) -> None:
        for offset, record in self.rendered(batch):
            where = (batch.partition, offset) if self.offsets else ()
            self._writer.writerow([*where, *map(_cell, record.values())])


class _Arrow:
    """An Arrow stream of the records alone."""

    def __init__(self, schema: pa.Schema, *, offsets: bool) -> None:
        import pyarrow as pa

        del offsets
        self._writer = pa.ipc.new_stream(sys.stdout.buffer, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, batch: _Batch) -> None:
        self._writer.write_batch(batch.records)
        sys.stdout.buffer.flush()


_WRITERS: dict[TailFormat, type[_Writer]] = {
    TailFormat.JSON: _Lines,
    TailFormat.CSV: _Cells,
    TailFormat.ARROW: _Arrow,
}


def _cell(value: Any) -> Any:
    """A value as ``atoll append`` reads it from CSV."""
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value
