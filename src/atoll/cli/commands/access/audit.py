"""``atoll audit``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import cell, print_json, print_table

_COLUMNS = ("at", "who", "outcome", "status", "action", "given", "address")


def audit(
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many.", min=1, max=10_000)] = 50,
    before: Annotated[
        str | None, typer.Option(help="Only those before this moment.", show_default=False)
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who changed what, when, and what came of it; the latest first."""
    from atoll.cli.client import Client

    params: dict[str, Any] = {"limit": limit}
    if before is not None:
        params["before"] = before
    with Client(url) as client:
        changes = client.get("audit", params=params)["changes"]
    if output is Output.JSON:
        print_json(changes)
        return
    print_table(_COLUMNS, [[_text(each.get(name)) for name in _COLUMNS] for each in changes])


def _text(value: Any) -> str:
    return "" if value in (None, {}) else cell(value)
