"""``atoll resume``."""

from __future__ import annotations

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, TopologyName, UrlOption
from atoll.cli.requests import ask_topology, state_of


def resume(
    module: ModuleName,
    topology: TopologyName,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a paused or failed topology go on."""
    status = ask_topology("resume", module, topology, url, output)
    state_of(module, topology, status, output)
