"""``atoll runtime`` send, shunt and stats: events for a runtime, and what it did with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.commands.runtime.group import Actor, Reference, app, ask, opened, say
from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import print_json, print_table
from atoll.errors import AtollError, UsageError

_LINES_MAX = 10_000
_BLOCK_BYTES = 8 << 20

_Event = Annotated[
    str | None, typer.Argument(metavar="EVENT", help="A JSON object.", show_default=False)
]


@app.command()
def send(
    reference: Reference,
    actor: Actor,
    event: _Event = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Events, one JSON object a line; - for stdin.", show_default=False),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let an actor take an event, or those of a file; each is processed exactly once."""
    from atoll.cli.client import Client

    if (event is None) == (file is None):
        raise UsageError("one event or a file of them", hint="give EVENT or --file FILE")
    parts = ("runtimes", reference, "actors", actor)
    accepted = 0
    with Client(url) as client:
        if event is not None:
            accepted = client.api("POST", *parts, body=event.encode())["accepted"]
        for first, block in _blocks(file) if file is not None else ():
            try:
                accepted += client.lines(*parts, body=block)["accepted"]
            except AtollError as error:
                raise _in_file(error, first, accepted) from None
    say(output, {"accepted": accepted}, f"{accepted} accepted")


@app.command()
def shunt(
    reference: Reference,
    actor: Actor,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="A JSON object.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Let an actor take an event and show its answer, as JSON; it emits nothing."""
    print_json(ask(url, "POST", reference, "actors", actor, "shunt", body=event.encode()))


@app.command()
def stats(
    reference: Reference,
    actor: Annotated[
        str | None,
        typer.Argument(metavar="ACTOR", help="Only this actor, with state.", show_default=False),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a runtime, a copy of it or an actor has done."""
    parts = () if actor is None else ("actors", actor)
    found = ask(url, "GET", reference, *parts, "stats")
    if output is Output.JSON:
        print_json(found)
    elif actor is None:
        _print_counters(found)
    else:
        print_table(("statistic", "count"), sorted(found["counters"].items()))
        rows = [
            (each["copy"], each["instance"], each.get("group", ""), each["snapshot"], each["state"])
            for each in found["instances"]
        ]
        if rows:
            print_table(("copy", "instance", "group", "snapshot", "state"), rows)


def _print_counters(found: dict[str, Any]) -> None:
    """The counters of each actor, and of all copies together."""
    counters: dict[str, dict[str, int]] = found["counters"]
    names = sorted({name for each in counters.values() for name in each})
    rows = [(actor, *(each.get(name, 0) for name in names)) for actor, each in counters.items()]
    print_table(("actor", *names), rows)


def _blocks(file: Path) -> Iterator[tuple[int, bytes]]:
    """A file's lines in requests of moderate size, each with the number of its first line."""
    block: list[bytes] = []
    size, first = 0, 1
    with sys.stdin.buffer if str(file) == "-" else opened(file) as source:
        for line in source:
            if block and (len(block) >= _LINES_MAX or size + len(line) > _BLOCK_BYTES):
                yield first, b"".join(block)
                first += len(block)
                block, size = [], 0
            block.append(line if line.endswith(b"\n") else line + b"\n")
            size += len(line)
    if block:
        yield first, b"".join(block)


def _in_file(error: AtollError, first: int, accepted: int) -> AtollError:
    """What a request of some lines of a file came to, told of the whole file."""
    for each in error.context.get("problems") or ():
        if "line" in each:
            each["path"] = f"line {first - 1 + int(each['line'])}{each['path']}"
    error.context |= {"accepted": accepted, "from_line": first}
    if accepted:
        error.hint = f"{error.hint or 'look at what is wrong'}; then send from line {first} on: "
        error.hint += f"the {accepted} events before it were accepted"
    return error
