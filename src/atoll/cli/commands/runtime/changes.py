"""``atoll runtime`` start, stop, scale and delete: what becomes of a runtime."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from atoll.cli.commands.runtime.group import Reference, app, ask, say
from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption


class Fate(StrEnum):
    """What becomes of the state of copies that go, and of state by key."""

    KEEP = "keep"
    DROP = "drop"
    MOVE = "move"


@app.command()
def start(
    reference: Reference, url: UrlOption = DEFAULT_URL, output: OutputOption = Output.TABLE
) -> None:
    """Let a runtime process events."""
    _change(reference, {"status": "start"}, "runs", url, output)


@app.command()
def stop(
    reference: Reference, url: UrlOption = DEFAULT_URL, output: OutputOption = Output.TABLE
) -> None:
    """Let a runtime rest, once all is processed that it had accepted."""
    _change(reference, {"status": "stop"}, "rests", url, output)


@app.command()
def scale(
    reference: Reference,
    copies: Annotated[int, typer.Option(help="How many copies from now on.", min=1, max=256)],
    state: Annotated[
        Fate | None,
        typer.Option(
            help="What becomes of the state of copies that go, and of state by key.",
            show_default=False,
        ),
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
    reference: Reference,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a runtime and all that it kept; its name is never given again."""
    if not yes:
        typer.confirm(f"Delete runtime {reference} and its state?", abort=True, err=True)
    done = ask(url, "DELETE", reference)
    say(output, done, f"{done['name']} is deleted")


def _change(reference: str, wanted: dict[str, Any], said: str, url: str, output: Output) -> None:
    done = ask(url, "PATCH", reference, data=wanted)
    say(output, done, f"{done['name']} {said}")
