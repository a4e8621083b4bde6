"""``atoll deploy``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, UrlOption
from atoll.cli.output import note, print_json, print_table
from atoll.cli.requests import say_paused


def deploy(
    module: ModuleName,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            help="What may go with its data: depot:NAME, pstate:NAME, sink:NAME or "
            "topology:NAME; may be given again.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Deploy the module's present code over the running version.

    The service reads the file or package again that it was started with, and shows what changes.
    The running microbatch ends first, and the next one is the new version's.
    """
    from atoll.cli.client import Client

    with Client(url) as client:
        data = {"dry_run": dry_run, "remove": remove or []}
        done = client.post("modules", module, "deploy", data=data)
    refused = [each for each in done["changes"] if each["effect"] == "refused"]
    if output is Output.JSON:
        print_json(done)
    else:
        if all(each["effect"] == "kept" for each in done["changes"]):
            sys.stdout.write("nothing changes but steps and functions\n")
        if done["changes"]:
            rows = [[each["effect"], each["part"], each["detail"]] for each in done["changes"]]
            print_table(["effect", "part", "detail"], rows)
    if refused:
        note("refused: it cannot be deployed like this")
        for hint in dict.fromkeys(each["hint"] for each in refused if each.get("hint")):
            note(f"to do: {hint}")
        raise typer.Exit(1)
    if not dry_run and output is not Output.JSON:
        note(f"{module} runs the new version")
        say_paused(module, done, url)
