"""``atoll cluster``, and the tables of a cluster."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import print_json, print_table

_WORKER_COLUMNS = ("id", "name", "host", "state", "units", "actors", "vnodes")
_FRAGMENT_COLUMNS = ("id", "topology", "name", "kind", "follows", "policy")


def cluster(
    module: Annotated[
        str | None,
        typer.Argument(help="Name of a module; all of the root without.", show_default=False),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the workers, and how many vnodes of each fragment each parallel unit owns.

    Without a module it shows those of all modules of the root, whichever process runs them.

    The matrix has a column worker:unit for each parallel unit. A source fragment owns no vnodes:
    a dot shows where it runs.
    """
    from atoll.cli.client import Client

    with Client(url) as client:
        described = client.get(*(() if module is None else ("modules", module)), "cluster")
    if output is Output.JSON:
        print_json(described)
        return
    sys.stdout.write(f"revision {described['revision']}\n\n")
    print_workers(described)
    sys.stdout.write("\n")
    _print_matrix(described)


def print_workers(described: dict[str, Any]) -> None:
    """One row per worker; the vnodes of a fragment and of those that follow it count once."""
    rows = []
    for worker in described["workers"]:
        runs = [
            (fragment, actor)
            for fragment in described["fragments"]
            for actor in fragment["actors"]
            if actor["worker"] == worker["id"]
        ]
        about = [worker[name] for name in ("id", "name", "host", "state")]
        units = ",".join(map(str, worker["units"]))
        vnodes = sum(actor["vnodes"] for each, actor in runs if each["follows"] is None)
        rows.append([*about, units, len(runs), vnodes])
    print_table(_WORKER_COLUMNS, rows)


def _print_matrix(described: dict[str, Any]) -> None:
    """One row per fragment, and a column for each unit that runs something or could."""
    units = _units(described)
    rows = []
    for fragment in described["fragments"]:
        vnodes = {actor["unit"]: actor["vnodes"] for actor in fragment["actors"]}
        if fragment["kind"] == "source":
            vnodes = dict.fromkeys(vnodes, ".")
        cells = [str(vnodes.get(unit, "")).rjust(len(heading)) for unit, heading in units.items()]
        follows = "" if fragment["follows"] is None else str(fragment["follows"])
        topology = fragment["topology"]
        if "module" in fragment:
            topology = f"{fragment['module']}/{topology}"
        policy = described["policies"].get(topology, "")
        names = [fragment["id"], topology, fragment["name"], fragment["kind"]]
        rows.append([*names, follows, policy, *cells])
    print_table([*_FRAGMENT_COLUMNS, *units.values()], rows)


def _units(described: dict[str, Any]) -> dict[int, str]:
    """The heading of each unit, worker by worker; last those that no worker has any more."""
    running = {actor["unit"] for each in described["fragments"] for actor in each["actors"]}
    headings = {
        unit: f"{worker['id']}:{unit}"
        for worker in described["workers"]
        for unit in worker["units"]
        if worker["state"] != "gone" or unit in running
    }
    return headings | {unit: f"-:{unit}" for unit in sorted(running - headings.keys())}
