"""``atoll watch``."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, UrlOption
from atoll.errors import UsageError


def watch(
    module: ModuleName,
    pstate: Annotated[str, typer.Argument(help="Name of the PState.", show_default=False)],
    keys: Annotated[
        list[str] | None, typer.Argument(help="Keys to follow, from the top.", show_default=False)
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(help="A path as JSON instead of keys.", metavar="JSON", show_default=False),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(help="Go on after this position instead of with the value.", metavar="ID"),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(help="End after so many changes.", min=1, show_default=False),
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Follow a value of a PState: it, then each commit's changes, one line of JSON each."""
    from atoll.cli.client import Client

    if path is not None and keys:
        raise UsageError("--path stands alone", hint="put the keys into the path")
    with Client(url) as client:
        place = ("modules", module, "pstates", pstate)
        steps = path if path is not None else json.dumps(_steps(client, place, keys or []))
        params = {"path": steps} if after is None else {"path": steps, "after": after}
        for number, change in enumerate(client.events(*place, "subscribe", params=params), 1):
            sys.stdout.write(json.dumps(change, ensure_ascii=False) + "\n")
            sys.stdout.flush()
            if number == count:
                return


def _steps(client: Any, place: tuple[str, ...], keys: list[str]) -> list[list[Any]]:
    from atoll import schema
    from atoll.cli.keys import typed_keys

    if not keys:
        return []
    return typed_keys(schema.from_json(client.get(*place)["schema"]), keys)[0]
