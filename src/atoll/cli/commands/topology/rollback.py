"""``atoll rollback``."""

from __future__ import annotations

from typing import Annotated

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, TopologyName, UrlOption
from atoll.cli.output import note
from atoll.cli.requests import ask_topology, state_of


def rollback(
    module: ModuleName,
    topology: TopologyName,
    to_microbatch: Annotated[
        int, typer.Option(help="The last microbatch that stays.", min=0, show_default=False)
    ],
    keep_appended: Annotated[
        bool,
        typer.Option(
            "--keep-appended",
            help="Go back even if rows were appended to depots since; they stay there.",
        ),
    ] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Go back to the state after an earlier microbatch, and pause.

    Later microbatches are abandoned; once resumed, the topology reads their records again.
    """
    data = {"to_microbatch": to_microbatch, "keep_appended": keep_appended}
    status = ask_topology("rollback", module, topology, url, output, data)
    state_of(module, topology, status, output)
    if output is not Output.JSON:
        note(f"to go on: atoll resume {module} {topology}")
