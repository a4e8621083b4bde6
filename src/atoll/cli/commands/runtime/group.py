"""What the commands of ``atoll runtime`` share: their arguments, and asking the service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import Output
from atoll.cli.output import note, print_json
from atoll.errors import UsageError

app = typer.Typer(
    help="Make, run and ask runtimes: pipelines declared in JSON.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Reference = Annotated[
    str,
    typer.Argument(
        metavar="RUNTIME", help="A name, OWNER-NAME or id; NAME.2 is copy 2.", show_default=False
    ),
]
Actor = Annotated[str, typer.Argument(metavar="ACTOR", help="An actor of it.")]


def ask(url: str, method: str, *parts: str, data: Any = None, body: bytes | None = None) -> Any:
    """What the service answers at ``/api/runtimes/part/...``."""
    from atoll.cli.client import Client

    with Client(url) as client:
        return client.api(method, "runtimes", *parts, data=data, body=body)


def say(output: Output, data: Any, *said: str) -> None:
    """Write what a command did: as data, or in words."""
    if output is Output.JSON:
        print_json(data)
        return
    for line in said:
        note(line)


def read(file: Path) -> bytes:
    """What a file holds, or stdin for ``-``."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    with opened(file) as source:
        return bytes(source.read())


def opened(file: Path) -> Any:
    """A file, to be read.

    Raises:
        UsageError: When it cannot be.
    """
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", hint="give the name of a file that is there"
        ) from None
