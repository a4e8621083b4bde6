"""``atoll checkpoint``."""

from __future__ import annotations

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, TopologyName, UrlOption
from atoll.cli.output import note
from atoll.cli.requests import ask_topology


def checkpoint(
    module: ModuleName,
    topology: TopologyName,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write all state that changed since its last checkpoint to one, now."""
    status = ask_topology("checkpoint", module, topology, url, output)
    if output is not Output.JSON:
        note(f"{topology} of {module} is in checkpoints as of microbatch {status['checkpoint']}")
