"""``atoll pause``."""

from __future__ import annotations

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, TopologyName, UrlOption
from atoll.cli.output import note, print_json

__all__ = ["pause"]


def pause(
    module: ModuleName,
    topology: TopologyName,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Pause a topology: its running microbatch finishes, no other starts."""
    from atoll.cli.client import Client

    with Client(url) as client:
        status = client.post("modules", module, "topologies", topology, "pause")
    if output is Output.JSON:
        print_json(status)
    else:
        note(f"{topology} of {module} is {status['state']} after microbatch {status['committed']}")
