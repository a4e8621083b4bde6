"""``atoll runtime`` validate, create, list and show: what runtimes there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.commands.runtime.group import Reference, app, ask, read, say
from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import note, print_json, print_table

_Definition = Annotated[
    Path, typer.Argument(metavar="FILE", help="The definition, JSON; - for stdin.")
]


@app.command()
def validate(file: _Definition, output: OutputOption = Output.TABLE) -> None:
    """Say everything that is wrong with a definition; asks no service."""
    from atoll.runtime.definition.read import parse_definition, unrunnable

    definition = parse_definition(read(file))
    reasons = unrunnable(definition)
    say(
        output,
        {"valid": True, "name": definition.name, "runs": not reasons},
        f"{definition.name}: {len(definition.actors)} actors, nothing wrong",
        *(f"it cannot run yet: {each.what}; {each.hint}" for each in reasons),
    )


@app.command()
def create(
    file: _Definition,
    start: Annotated[bool, typer.Option("--start", help="Start it at once.")] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a runtime of a definition; it does not run until it is started."""
    made = ask(url, "POST", body=read(file))
    if start:
        ask(url, "PATCH", made["id"], data={"status": "start"})
    wanted = "" if made["definition"]["name"] == made["name"] else ", under another name"
    next_ = () if start else (f"  atoll runtime start {made['name']}",)
    done = "made and started" if start else "made"
    say(output, made, f"{made['uniqueName']} was {done}{wanted}", *next_)


@app.command("list")
def list_(url: UrlOption = DEFAULT_URL, output: OutputOption = Output.TABLE) -> None:
    """Show all runtimes."""
    found = ask(url, "GET")
    if output is Output.JSON:
        print_json(found)
        return
    columns = ("runtime", "owner", "status", "copies", "actors", "started")
    rows = [
        (
            each["name"],
            each["owner"],
            each["status"],
            each["copies"],
            len(each["json"]["actors"]),
            each["starttime"] or "",
        )
        for each in found
    ]
    print_table(columns, rows)
    for each in found:
        if each.get("error"):
            note(f"{each['name']} is not here: {each['error']['message']}")


@app.command()
def show(reference: Reference, url: UrlOption = DEFAULT_URL) -> None:
    """Show a runtime, or a copy of it, as JSON."""
    print_json(ask(url, "GET", reference))
