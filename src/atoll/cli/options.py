"""Options that several commands share, declared once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

DEFAULT_PORT = 7410
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"


EXIT_NOT_YET = 5
"""The exit code of a command that did what it was asked to, but for a wait that took too long."""

WAIT_SECONDS = 60.0
_WAIT_SECONDS_MAX = 300.0


class Output(StrEnum):
    """How data is written to stdout."""

    TABLE = "table"
    JSON = "json"


class EngineChoice(StrEnum):
    """What runs microbatches."""

    SPARK = "spark"
    INLINE = "inline"
    AUTO = "auto"


UrlOption = Annotated[
    str, typer.Option("--url", envvar="ATOLL_URL", help="Address of the running service.")
]

OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Format of the data on stdout.")
]

TimeoutOption = Annotated[
    float, typer.Option(help="How many seconds to wait.", min=0.001, max=_WAIT_SECONDS_MAX)
]

ModuleName = Annotated[str, typer.Argument(help="Name of the module.", show_default=False)]

TopologyName = Annotated[str, typer.Argument(help="Name of the topology.", show_default=False)]

HostOption = Annotated[
    str, typer.Option(help="Address to listen on; others than this machine's need tokens.")
]

AllowHostOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A further name by which clients reach it; may be given again.", show_default=False
    ),
]

PortOption = Annotated[
    int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
]

AnnounceOption = Annotated[
    str | None,
    typer.Option(
        "--announce",
        help="Address at which doors on other hosts reach it, such as https://a.example; where it "
        "listens without.",
        show_default=False,
    ),
]
