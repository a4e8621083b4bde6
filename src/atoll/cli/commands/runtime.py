"""``atoll runtime``: pipelines of runtime actors that are declared in JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import note, print_json, print_table
from atoll.errors import AtollError, UsageError

app = typer.Typer(
    help="Make, run and ask runtimes: pipelines declared in JSON.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Reference = Annotated[
    str,
    typer.Argument(
        metavar="RUNTIME", help="A name, OWNER-NAME or id; NAME.2 is copy 2.", show_default=False
    ),
]
_Actor = Annotated[str, typer.Argument(metavar="ACTOR", help="An actor of it.")]
_Definition = Annotated[
    Path, typer.Argument(metavar="FILE", help="The definition, JSON; - for stdin.")
]
_Event = Annotated[
    str | None, typer.Argument(metavar="EVENT", help="A JSON object.", show_default=False)
]


class Fate(StrEnum):
    """What becomes of the state of copies that go."""

    KEEP = "keep"
    DROP = "drop"


@app.command()
def validate(file: _Definition, output: OutputOption = Output.TABLE) -> None:
    """Say everything that is wrong with a definition; asks no service."""
    from atoll.runtime.definition.read import parse_definition, unrunnable

    definition = parse_definition(_read(file))
    reasons = unrunnable(definition)
    if output is Output.JSON:
        print_json({"valid": True, "name": definition.name, "runs": not reasons})
        return
    note(f"{definition.name}: {len(definition.actors)} actors, nothing wrong")
    for each in reasons:
        note(f"it cannot run yet: {each.what}; {each.hint}")


@app.command()
def create(
    file: _Definition,
    start: Annotated[bool, typer.Option("--start", help="Start it at once.")] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a runtime of a definition; it does not run until it is started."""
    from atoll.cli.client import Client

    with Client(url) as client:
        made = client.api("POST", "runtimes", body=_read(file))
        if start:
            client.api("PATCH", "runtimes", made["id"], data={"status": "start"})
    if output is Output.JSON:
        print_json(made)
        return
    wanted = "" if made["definition"]["name"] == made["name"] else ", under another name"
    note(f"{made['uniqueName']} was {'made and started' if start else 'made'}{wanted}")
    if not start:
        note(f"  atoll runtime start {made['name']}")


@app.command("list")
def list_(url: UrlOption = DEFAULT_URL, output: OutputOption = Output.TABLE) -> None:
    """Show all runtimes."""
    from atoll.cli.client import Client

    with Client(url) as client:
        found = client.api("GET", "runtimes")
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
def show(reference: _Reference, url: UrlOption = DEFAULT_URL) -> None:
    """Show a runtime, or a copy of it, as JSON."""
    _print("GET", reference, url=url)


@app.command()
def start(
    reference: _Reference, url: UrlOption = DEFAULT_URL, output: OutputOption = Output.TABLE
) -> None:
    """Let a runtime process events."""
    _change(reference, {"status": "start"}, "runs", url, output)


@app.command()
def stop(
    reference: _Reference, url: UrlOption = DEFAULT_URL, output: OutputOption = Output.TABLE
) -> None:
    """Let a runtime rest, once all is processed that it had accepted."""
    _change(reference, {"status": "stop"}, "rests", url, output)


@app.command()
def scale(
    reference: _Reference,
    copies: Annotated[int, typer.Option(help="How many copies from now on.", min=1, max=256)],
    state: Annotated[
        Fate | None,
        typer.Option(help="What becomes of the state of copies that go.", show_default=False),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change how many copies a runtime has, while it runs."""
    wanted: dict[str, Any] = {"distribution": {"copies": copies}}
    if state is not None:
        wanted["state"] = state.value
    _change(reference, wanted, f"has copies: {copies}", url, output)


@app.command()
def delete(
    reference: _Reference,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a runtime and all that it kept; its name is never given again."""
    if not yes:
        typer.confirm(f"Delete runtime {reference} and its state?", abort=True, err=True)
    from atoll.cli.client import Client

    with Client(url) as client:
        done = client.api("DELETE", "runtimes", reference)
    if output is Output.JSON:
        print_json(done)
    else:
        note(f"{done['name']} is deleted")


@app.command()
def send(
    reference: _Reference,
    actor: _Actor,
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
    if output is Output.JSON:
        print_json({"accepted": accepted})
    else:
        note(f"{accepted} accepted")


@app.command()
def shunt(
    reference: _Reference,
    actor: _Actor,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="A JSON object.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Let an actor take an event and show its answer, as JSON; it emits nothing."""
    from atoll.cli.client import Client

    parts = ("runtimes", reference, "actors", actor, "shunt")
    with Client(url) as client:
        print_json(client.api("POST", *parts, body=event.encode()))


@app.command()
def stats(
    reference: _Reference,
    actor: Annotated[
        str | None,
        typer.Argument(metavar="ACTOR", help="Only this actor, with state.", show_default=False),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a runtime, a copy of it or an actor has done."""
    from atoll.cli.client import Client

    parts = () if actor is None else ("actors", actor)
    with Client(url) as client:
        found = client.api("GET", "runtimes", reference, *parts, "stats")
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


def _print(method: str, *parts: str, url: str) -> None:
    from atoll.cli.client import Client

    with Client(url) as client:
        print_json(client.api(method, "runtimes", *parts))


def _change(reference: str, wanted: dict[str, Any], said: str, url: str, output: Output) -> None:
    from atoll.cli.client import Client

    with Client(url) as client:
        done = client.api("PATCH", "runtimes", reference, data=wanted)
    if output is Output.JSON:
        print_json(done)
    else:
        note(f"{done['name']} {said}")


_LINES_MAX = 10_000
_BLOCK_BYTES = 8 << 20


def _blocks(file: Path) -> Iterator[tuple[int, bytes]]:
    """A file's lines in requests of moderate size, each with the number of its first line."""
    block: list[bytes] = []
    size, first = 0, 1
    with sys.stdin.buffer if str(file) == "-" else _opened(file) as source:
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


def _read(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    with _opened(file) as source:
        return bytes(source.read())


def _opened(file: Path) -> Any:
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", hint="give the name of a file that is there"
        ) from None
