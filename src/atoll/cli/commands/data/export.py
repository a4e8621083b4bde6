"""``atoll export``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, UrlOption
from atoll.cli.output import note

if TYPE_CHECKING:
    import pyarrow as pa


def export(  # each is an option
    module: ModuleName,
    pstate: Annotated[str, typer.Argument(help="Name of the PState.", show_default=False)],
    to: Annotated[
        Path, typer.Option("--to", help="The file; what is there is replaced.", show_default=False)
    ],
    format_: Annotated[
        str | None,
        typer.Option("--format", help="'parquet' or 'arrow'; else by the file's name."),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(help="Which values of a struct whose fields are stored apart.", metavar="F"),
    ] = None,
    as_of: Annotated[
        int | None, typer.Option(help="As it was after this microbatch.", min=0, metavar="N")
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="What commits wrote, instead of the state.")
    ] = False,
    after: Annotated[
        int | None, typer.Option(help="Changes of those after this one.", min=0, metavar="N")
    ] = None,
    up_to: Annotated[
        int | None, typer.Option(help="Changes of those up to this one.", min=0, metavar="N")
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write a PState as of a microbatch, or what commits changed of it, to a file of columns."""
    from atoll.cli.client import Client
    from atoll.views.export.files import format_named, write_file

    kind = format_named(to, format_)
    given = {"field": field, "as_of": as_of, "after": after, "up_to": up_to}
    params = {name: str(value) for name, value in given.items() if value is not None}
    params |= {"format": "arrow", "changes": "true" if changes else "false"}
    place = ("modules", module, "pstates", pstate, "export")
    with Client(url) as client, client.arrow(*place, params=params) as reader:
        rows = write_file(to, kind, reader.schema, _batches(reader))
        about = {name.decode(): text.decode() for name, text in reader.schema.metadata.items()}
    what = f"changes after microbatch {about['atoll.after_microbatch']}, up to" if changes else ""
    note(f"{rows} rows: {what or 'as of microbatch'} {about['atoll.microbatch']}")


def _batches(reader: pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    """The batches; what went wrong on the way is in the metadata of the last one."""
    from atoll.cli.client import error_of

    while True:
        try:
            batch, about = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        if about is not None and b"problem" in about:
            raise error_of(json.loads(about[b"problem"]))
        yield batch
