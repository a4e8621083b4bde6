"""``atoll pause``."""

from __future__ import annotations

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, TopologyName, UrlOption
from atoll.cli.requests import ask_topology, state_of


def pause(
    module: ModuleName,
    topology: TopologyName,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Pause a topology: its running microbatch finishes, no other starts."""
    status = ask_topology("pause", module, topology, url, output)
    state_of(module, topology, status, output)
