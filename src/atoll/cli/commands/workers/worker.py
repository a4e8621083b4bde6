"""``atoll worker``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from atoll.cli.commands.workers.cluster import print_workers
from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import print_json
from atoll.placement.limits import UNITS_MAX

app = typer.Typer(
    help="Take workers out of use, and back; give a service more units.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Workers = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODULE] WORKER...",
        help="Ids of workers; a module before them, whose service is asked, changes nothing.",
    ),
]


@app.command()
def cordon(
    workers: _Workers,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give workers no new actors, of any module; those that they have stay."""
    _change("cordon", workers, url, output)


@app.command()
def uncordon(
    workers: _Workers,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let cordoned workers get new actors again."""
    _change("uncordon", workers, url, output)


@app.command()
def remove(
    workers: _Workers,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Forget workers on which no actor of any module runs."""
    _change("remove", workers, url, output)


@app.command()
def leave(
    workers: Annotated[
        list[int], typer.Argument(metavar="WORKER...", help="Ids of workers.", min=0)
    ],
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let workers end soon: what they run moves to others, and they are forgotten then."""
    _change("leave", list(map(str, workers)), url, output)


@app.command()
def units(
    count: Annotated[
        int,
        typer.Argument(
            metavar="N", help="How many parallel units it has from now on.", min=1, max=UNITS_MAX
        ),
    ],
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a service without a Spark cluster so many parallel units, while it runs.

    Topologies go where their policies want them: one that asked for more than there were takes
    those that came; what runs on units that go is moved first. It holds until the service ends;
    the next one has as many as atoll run --units says.
    """
    from atoll.cli.client import Client

    with Client(url) as client:
        _show(client.post("cluster", "units", data={"units": count}), output)


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="What runs the worker in the foreground."),
    ],
    root: Annotated[str, typer.Option(help="Folder or URL of depots, commits and state.")],
    name: Annotated[
        str | None,
        typer.Option(
            help="The worker's name, which tells it apart from others on this host; the host's "
            "without.",
            show_default=False,
        ),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option(
            help="How many parallel units it has; as many as its cores without.",
            min=1,
            max=UNITS_MAX,
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="How many seconds a stop waits until nothing runs.", min=0)
    ] = 300.0,
) -> None:
    """Run a worker of a cluster that leaves before it ends.

    On SIGTERM or Ctrl-C it says on the root that it is leaving, waits until what it runs has moved
    to others, and only then passes the signal on. Ends with the command's exit code.
    """
    from atoll.cli.leaving import run_worker

    raise typer.Exit(run_worker(command, root, name, timeout, units))


def _change(action: str, given: list[str], url: str, output: Output) -> None:
    """Ask for it, then show the workers."""
    from atoll.cli.client import Client

    module, workers = _parsed(given)
    parts = ("cluster", action) if module is None else ("modules", module, "cluster", action)
    with Client(url) as client:
        described = client.post(*parts, data={"workers": workers})
    _show(described, output)


def _show(described: dict[str, Any], output: Output) -> None:
    """The workers; all of the cluster with JSON wanted."""
    if output is Output.JSON:
        print_json(described)
    else:
        print_workers(described)


def _parsed(given: list[str]) -> tuple[str | None, list[int]]:
    """The module, if one is named first, and the ids."""
    module = None if given[0].isdecimal() else given[0]
    ids = given if module is None else given[1:]
    if not ids:
        raise typer.BadParameter("no worker is named")
    for each in ids:
        if not (each.isascii() and each.isdecimal()):
            raise typer.BadParameter(f"{each!r} is no id of a worker")
    return module, [int(each) for each in ids]
