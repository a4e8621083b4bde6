"""``atoll append``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atoll.cli.options import (
    DEFAULT_URL,
    EXIT_NOT_YET,
    WAIT_SECONDS,
    ModuleName,
    Output,
    OutputOption,
    TimeoutOption,
    UrlOption,
)
from atoll.cli.output import OutputError, cell, note, print_error, print_json
from atoll.cli.sources import Source, argument_source, file_source, stdin_source
from atoll.depot.formats import Format
from atoll.errors import AtollError, RecordsRefusedError, UsageError, WaitTimeoutError

if TYPE_CHECKING:
    from atoll.cli.client import Client


EXIT_NOTHING_KEPT = 2
EXIT_SOME_REFUSED = 3
_REFUSALS_SHOWN_MAX = 20
_PROGRESS_BYTES_MIN = 1 << 20


def append(
    module: ModuleName,
    depot: Annotated[str, typer.Argument(help="Name of the depot.", show_default=False)],
    records: Annotated[
        list[str] | None,
        typer.Argument(help="Records as JSON objects; - reads stdin.", show_default=False),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="A file of records; may be given again."),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Format of files or stdin; else by the file's name."),
    ] = None,
    on_invalid: Annotated[
        str,
        typer.Option(
            help="When a record does not fit the schema: 'none' keeps no record of its file, "
            "'keep' keeps the good ones."
        ),
    ] = "none",
    producer_id: Annotated[
        str | None,
        typer.Option("--producer-id", help="Store an append that is sent again only once."),
    ] = None,
    sequence: Annotated[
        int | None,
        typer.Option(min=0, help="The producer's number of this append; each file has the next."),
    ] = None,
    producer_epoch: Annotated[
        int, typer.Option("--producer-epoch", min=0, help="A higher one counts anew.")
    ] = 0,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Return when the topologies that read the depot have committed them."
        ),
    ] = False,
    timeout: TimeoutOption = WAIT_SECONDS,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Append records to a depot: from files, stdin or arguments.

    They are on disk when the command ends, but a query shows the state before them until the next
    microbatch has committed: --wait waits for that, --timeout seconds at most. Refused records are
    listed with line and reason. Exit code 0: all kept. 3: some refused, the good ones kept. 2:
    nothing kept. 5: kept, but not processed in time.
    """
    from atoll.cli.client import Client

    if on_invalid not in ("none", "keep"):
        raise UsageError(f"--on-invalid cannot be {on_invalid!r}", hint="write none or keep")
    if (producer_id is None) != (sequence is None):
        raise UsageError("--producer-id and --sequence go together", hint="give both or none")
    sources = _sources(records or [], file or [], format_)
    with Client(url) as client:
        client.get("modules", module, "depots", depot)  # a wrong name shows before a byte is sent
        results = [
            _send(
                client,
                (module, depot),
                source,
                on_invalid,
                _producer(producer_id, (sequence or 0) + place, producer_epoch),
            )
            for place, source in enumerate(sources)
        ]
    kept = sum(result["appended"] for result in results)
    try:
        _report(results, output)
    except OutputError as error:
        hint = f"{kept:,} records are stored: do not append them again"
        raise OutputError(error.message, hint=hint if kept else error.hint) from None
    if wait:
        _wait(url, (module, depot), results, timeout)
    if any(result["refused"] for result in results):
        raise typer.Exit(EXIT_SOME_REFUSED if kept else EXIT_NOTHING_KEPT)


def _wait(url: str, names: tuple[str, str], results: list[dict[str, Any]], timeout: float) -> None:
    """Return when what was appended is processed; say so when it is not in time, or will not be."""
    from atoll.cli.client import Client

    module, depot = names
    ends: dict[str, int] = {}
    for result in results:
        for partition, (_, end) in result.get("offsets", {}).items():
            ends[partition] = max(end, ends.get(partition, 0))
    known = all(result.get("offsets") for result in results if result["appended"])
    kept = sum(result["appended"] for result in results)
    # Of an append that was stored long before only that is known; then all there is is waited for.
    data = {"ends": ends if known else None, "timeout_seconds": timeout}
    try:
        with Client(url) as client:
            client.post("modules", module, "depots", depot, "wait", data=data)
    except AtollError as error:
        note(f"{kept:,} records are stored: do not append them again")
        if not isinstance(error, WaitTimeoutError):
            raise
        print_error(error)
        raise typer.Exit(EXIT_NOT_YET) from None


def _sources(records: list[str], files: list[Path], kind: Format | None) -> list[Source]:
    if not records and not files:
        raise UsageError(
            "nothing to append",
            hint="give records as JSON arguments, files with --file, or - to read stdin",
        )
    sources = [file_source(each, kind) for each in files]
    if records == ["-"]:
        sources.append(stdin_source(kind))
    elif records:
        sources.append(argument_source(records))
    return sources


def _producer(name: str | None, sequence: int, epoch: int) -> dict[str, str] | None:
    """The headers that name the producer."""
    if name is None:
        return None
    return {
        "Atoll-Producer-Id": name,
        "Atoll-Producer-Sequence": str(sequence),
        "Atoll-Producer-Epoch": str(epoch),
    }


def _send(
    client: Client,
    names: tuple[str, str],
    source: Source,
    on_invalid: str,
    producer: dict[str, str] | None,
) -> dict[str, Any]:
    """Append one source; what came of it, refusals included."""
    with _progress(source) as progress:
        try:
            answer = client.append(
                *names,
                lambda: source.read(progress),
                source.media_type,
                on_invalid,
                producer,
                again=source.size_bytes is not None,  # stdin can be read only once
            )
        except RecordsRefusedError as error:
            answer = {
                "appended": error.context.get("appended", 0),
                "refused": error.context.get("refused", 0),
                "refusals": error.context.get("refusals", []),
            }
    return {"source": source.name, **answer}


@contextmanager
def _progress(source: Source) -> Iterator[Any]:
    """A bar on stderr, for a person who waits; silent otherwise."""
    small = source.size_bytes is not None and source.size_bytes < _PROGRESS_BYTES_MIN
    if small or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(Path(source.name).name, total=source.size_bytes)
        yield lambda position: bar.update(task, completed=position)


def _report(results: list[dict[str, Any]], output: Output) -> None:
    for result in results:
        refusals = result["refusals"][:_REFUSALS_SHOWN_MAX]
        for refusal in refusals:
            note(f"{result['source']}, line {refusal['line']}: {cell(refusal['reason'])}")
        if result["refused"] > len(refusals):
            note(f"{result['source']}: {result['refused'] - len(refusals):,} more refused")
    if output is Output.JSON:
        print_json(results)
        return
    for result in results:
        kept, refused = result["appended"], result["refused"]
        text = f"{result['source']}: {kept:,} appended"
        if result.get("duplicate"):
            text += " before"
        sys.stdout.write(text + (f", {refused:,} refused\n" if refused else "\n"))
    sys.stdout.flush()
