"""``atoll scale``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import note, print_json, print_table
from atoll.errors import UsageError

_COLUMNS = ("fragment", "unit", "before", "after")


def scale(
    module: Annotated[
        str | None,
        typer.Argument(
            help="Name of the module; without one a plan may name fragments of any.",
            show_default=False,
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Argument(help="Name of the topology; with --parallelism.", show_default=False),
    ] = None,
    parallelism: Annotated[
        str | None,
        typer.Option(
            help="How many parallel units the topology gets: adaptive (all), 4 or fixed(4), "
            "bounded(4), ratio(0.5), load(1,8) (as many as the load asks for).",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            help="What changes, as fragment-[units to remove]+[units to add], items apart by ';': "
            "12-[0,3]+[5];13-[4].",
            show_default=False,
        ),
    ] = None,
    revision: Annotated[
        int | None,
        typer.Option(
            help="Of the cluster that the plan was made from, as atoll cluster shows it.",
            min=0,
            show_default=False,
        ),
    ] = None,
    resolve: Annotated[
        bool,
        typer.Option(
            "--resolve", help="A change of a fragment that follows another is meant for that one."
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            help="How many seconds to wait for the first microbatch on the new units.",
            min=0.1,
            max=300,
        ),
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change on how many parallel units a topology runs, or on which ones its fragments run.

    Either a topology and --parallelism: a policy, which answers to workers that come and go from
    then on. Or --plan and --revision: just these units, all of the plan or nothing; without a
    module of any, also of those that other processes run on the root. The topologies
    go on meanwhile; the command ends when they have committed on the new units. A policy that asks
    for more units than there are is stored all the same, with exit code 0, and what is missing is
    said.
    """
    from atoll.cli.client import Client

    parts: tuple[str, ...]
    data: dict[str, Any]
    if plan is None:
        if module is None:
            raise typer.BadParameter("name a module, or give --plan and --revision")
        topology, data = _by_policy(topology, parallelism, revision, resolve=resolve)
        parts = ("modules", module, "topologies", topology, "parallelism")
    else:
        data = _by_plan(plan, topology, parallelism, revision)
        data["resolve"] = resolve
        of_module = () if module is None else ("modules", module)
        parts = (*of_module, "cluster", "reschedule")
    data["timeout_seconds"] = timeout
    with Client(url) as client:
        done = client.post(*parts, data={**data, "dry_run": dry_run})
    if output is Output.JSON:
        print_json(done)
        return
    _print_done(done)
    if done["dry_run"] and done["fragments"] and plan is None:
        sys.stdout.write(f"\nas a plan: {_as_plan(done)}\n")
    if done["shortage"] is not None:
        _say_shortage(topology, done["shortage"], dry_run=dry_run)


def _by_policy(
    topology: str | None, parallelism: str | None, revision: int | None, *, resolve: bool
) -> tuple[str, dict[str, Any]]:
    if parallelism is None:
        raise UsageError(
            "nothing says what to change",
            hint="give a topology and --parallelism, or --plan and --revision",
        )
    if topology is None:
        raise UsageError("--parallelism is for one topology", hint="name it behind the module")
    if revision is not None or resolve:
        raise UsageError(
            "--revision and --resolve go with --plan",
            hint="leave them out: a policy is always set for the cluster as it is",
        )
    return topology, {"policy": parallelism}


def _by_plan(
    plan: str, topology: str | None, parallelism: str | None, revision: int | None
) -> dict[str, Any]:
    if parallelism is not None:
        raise UsageError("--plan and --parallelism exclude each other", hint="give one of them")
    if topology is not None:
        raise UsageError(
            "a plan names fragments, so it takes no topology", hint=f"leave {topology!r} out"
        )
    if revision is None:
        raise UsageError(
            "--plan needs --revision",
            hint="give the revision that atoll cluster showed when you made the plan",
        )
    return {"plan": plan, "revision": revision}


def _print_done(done: dict[str, Any]) -> None:
    """How much moves or moved, then per fragment and unit the vnodes before and after."""
    if not done["fragments"]:
        sys.stdout.write("nothing moves\n")
        return
    when = "to move" if done["dry_run"] else "moved"
    count = "unknown" if done["bytes_moved"] is None else f"{done['bytes_moved']:,}"
    sys.stdout.write(f"vnodes {when}: {done['vnodes_moved']:,}, bytes between workers: {count}\n")
    if not done["dry_run"]:
        sys.stdout.write(f"revision {done['revision']}\n")
    sys.stdout.write("\n")
    print_table(_COLUMNS, [row for each in done["fragments"].items() for row in _rows(*each)])


def _as_plan(done: dict[str, Any]) -> str:
    """The options by which a person asks for the same; a dry run tells the revision after it."""
    from atoll.placement.reschedule.change import UnitChange
    from atoll.placement.reschedule.text import format_plan

    changes = {
        int(fragment): UnitChange(added=tuple(each["added"]), removed=tuple(each["removed"]))
        for fragment, each in done["fragments"].items()
    }
    return f"--plan '{format_plan(changes)}' --revision {done['revision'] - 1}"


def _say_shortage(topology: str | None, missing: dict[str, Any], *, dry_run: bool) -> None:
    """Tell that the policy is one for units that are not there, and how to add them."""
    stored = "would be stored" if dry_run else "is stored"
    there = f"{topology} has {missing['has']} of the {missing['asked']} units that it asks for"
    note(
        f"policy {missing['policy']} of {topology} {stored}, but {there}: "
        f"{missing['missing']} missing; it takes them when they come\n"
        f"to do: {missing['hint']}"
    )


def _rows(fragment: str, change: dict[str, Any]) -> list[list[Any]]:
    """The units of one fragment; a source fragment has no vnodes, so dots show where it runs."""
    if change["vnodes"]:
        cells = {
            int(unit): (vnodes["before"], vnodes["after"])
            for unit, vnodes in change["vnodes"].items()
        }
    else:
        added, removed = change["added"], change["removed"]
        cells = {
            unit: ("." if unit in removed else "", "." if unit in added else "")
            for unit in sorted({*added, *removed})
        }
    *_, before, after = map(len, _COLUMNS)
    return [
        [int(fragment), unit, str(had).rjust(before), str(has).rjust(after)]
        for unit, (had, has) in cells.items()
    ]
