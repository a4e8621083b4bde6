"""What the commands share that ask one thing of one running topology."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from atoll.cli.asked import where
from atoll.cli.options import DEFAULT_URL, Output
from atoll.cli.output import note, print_json


def ask_topology(  # what the command line gave
    action: str,
    module: str,
    topology: str,
    url: str,
    output: Output,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Post the action and return the topology's status; with JSON wanted, print it."""
    from atoll.cli.client import Client

    with Client(url) as client:
        status: dict[str, Any] = client.post(
            "modules", module, "topologies", topology, action, data=data
        )
    if output is Output.JSON:
        print_json(status)
    return status


def state_of(module: str, topology: str, status: dict[str, Any], output: Output) -> None:
    """Say to a person where the topology is now."""
    if output is not Output.JSON:
        note(f"{topology} of {module} is {status['state']} after microbatch {status['committed']}")


def say_paused(module: str, status: dict[str, Any], url: str = DEFAULT_URL) -> None:
    """Say which topologies of a module rest, since when, and how they go on."""
    for topology, details in status["topologies"].items():
        paused = details.get("paused")
        if details["state"] == "paused" and paused:
            since = datetime.fromtimestamp(paused["since_ms"] / 1000).astimezone()
            why = "" if paused["why"] == "asked" else f" by a {paused['why']}"
            note(
                f"{topology} of {module} is paused{why} since {since:%Y-%m-%d %H:%M:%S %Z}, and "
                f"processes nothing; to go on: atoll resume {module} {topology}{where(url)}"
            )
