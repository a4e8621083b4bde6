"""``atoll worker``."""

from __future__ import annotations

from typing import Annotated

import typer

from atoll.cli.commands.workers.cluster import print_workers
from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, UrlOption
from atoll.cli.output import print_json

app = typer.Typer(
    help="Take workers out of use, and back.", no_args_is_help=True, rich_markup_mode=None
)

_Workers = Annotated[list[int], typer.Argument(metavar="WORKER", help="Ids of workers.", min=0)]


@app.command()
def cordon(
    module: ModuleName,
    workers: _Workers,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give workers no new actors; those that they have stay."""
    _change("cordon", module, workers, url, output)


@app.command()
def uncordon(
    module: ModuleName,
    workers: _Workers,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let cordoned workers get new actors again."""
    _change("uncordon", module, workers, url, output)


@app.command()
def remove(
    module: ModuleName,
    workers: _Workers,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Forget workers on which no actor runs."""
    _change("remove", module, workers, url, output)


def _change(action: str, module: str, workers: list[int], url: str, output: Output) -> None:
    """Ask for it, then show the workers; all of the cluster with JSON wanted."""
    from atoll.cli.client import Client

    with Client(url) as client:
        described = client.post("modules", module, "cluster", action, data={"workers": workers})
    if output is Output.JSON:
        print_json(described)
    else:
        print_workers(described)
