"""``atoll options``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, ModuleName, Output, OutputOption, UrlOption
from atoll.cli.output import print_json, print_table
from atoll.errors import UsageError


def options(
    module: ModuleName,
    option: Annotated[
        str | None, typer.Argument(help="The option to set.", show_default=False)
    ] = None,
    value: Annotated[
        int | None, typer.Argument(help="A whole number, with its unit as named.")
    ] = None,
    topology: Annotated[str | None, typer.Option(help="Set it for this topology only.")] = None,
    depot: Annotated[str | None, typer.Option(help="Set it for this depot only.")] = None,
    pstate: Annotated[str | None, typer.Option(help="Set it for this PState only.")] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Take back what was set there.")] = False,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a module's options, or set one from the next microbatch on and over restarts.

    The most specific value wins: depot or PState before topology before module.
    """
    from atoll.cli.client import Client

    where = {"topology": topology, "depot": depot, "pstate": pstate}
    _check(option, value, where, unset=unset)
    with Client(url) as client:
        if option is None:
            described = client.get("modules", module, "options")
        else:
            data = {"option": option, "value": value, **where}
            described = client.post("modules", module, "options", data=data)
    if output is Output.JSON:
        print_json(described)
        return
    names = list(described["topologies"])
    values = [described["topologies"][name]["options"] for name in names]
    known = list(values[0]) if values else []
    print_table(("option", *names), [[each, *(v[each] for v in values)] for each in known])
    if rows := _specific(described):
        sys.stdout.write("\n")
        print_table(("option", "of", "name", "value"), rows)


def _specific(described: dict[str, Any]) -> list[list[Any]]:
    """What is set for depots and PStates, which no topology's column shows."""
    return [
        [option, level, name, value]
        for level in ("depot", "pstate")
        for name, values in described["set"].get(level, {}).items()
        for option, value in values.items()
    ]


def _check(
    option: str | None, value: int | None, where: dict[str, str | None], *, unset: bool
) -> None:
    if option is None and (unset or any(where.values())):
        raise UsageError("which option?", hint="atoll options MODULE OPTION VALUE --topology NAME")
    if option is not None and (value is None) != unset:
        raise UsageError(
            f"option {option!r} needs a value, or --unset",
            hint=f"atoll options MODULE {option} VALUE",
        )
