"""``atoll microbatch``."""

from __future__ import annotations

from datetime import datetime

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, TopologyName, UrlOption
from atoll.cli.output import print_json, print_table


def microbatch(
    module: ModuleName,
    topology: TopologyName,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a topology is at: microbatch, version, phase, since when, what it reads."""
    from atoll.cli.client import Client

    with Client(url) as client:
        state = client.get("modules", module, "topologies", topology, "microbatch")
    if output is Output.JSON:
        print_json(state)
        return
    since = datetime.fromtimestamp(state["since_ms"] / 1000).astimezone()
    head = [state["id"], state["version"], state["phase"], f"{since:%Y-%m-%d %H:%M:%S %Z}"]
    rows = [
        [*head, depot, partition, start, end]
        for depot, ranges in state["ranges"].items()
        for partition, (start, end) in enumerate(ranges)
    ]
    columns = ("id", "version", "phase", "since", "reads", "partition", "from", "up to")
    print_table(columns, rows or [[*head, "", "", "", ""]])
