"""Options that several commands share, declared once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = [
    "DEFAULT_PORT",
    "DEFAULT_URL",
    "ModuleName",
    "Output",
    "OutputOption",
    "TopologyName",
    "UrlOption",
]

DEFAULT_PORT = 7410
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"


class Output(StrEnum):
    """How data is written to stdout."""

    TABLE = "table"
    JSON = "json"


UrlOption = Annotated[
    str, typer.Option("--url", envvar="ATOLL_URL", help="Address of the running service.")
]

OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Format of the data on stdout.")
]

ModuleName = Annotated[str, typer.Argument(help="Name of the module.", show_default=False)]

TopologyName = Annotated[str, typer.Argument(help="Name of the topology.", show_default=False)]
