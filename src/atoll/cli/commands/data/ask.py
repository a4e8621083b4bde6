"""``atoll ask``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, UrlOption
from atoll.cli.output import print_json
from atoll.errors import UsageError


def ask(
    module: ModuleName,
    query: Annotated[str, typer.Argument(help="Name of the query.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="NAME=VALUE; a value is JSON, or else a text.", show_default=False),
    ] = None,
    timeout_seconds: Annotated[
        float, typer.Option("--timeout", help="How many seconds the answer may take.")
    ] = 10.0,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Ask a query of the module; the answer as JSON."""
    from atoll.cli.client import Client

    given = dict(map(_argument, arguments or []))
    with Client(url) as client:
        data = {"arguments": given, "timeout_seconds": timeout_seconds}
        print_json(client.post("modules", module, "queries", query, data=data)["answer"])


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{text!r} is no argument", hint="write NAME=VALUE, such as url=a.com")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
