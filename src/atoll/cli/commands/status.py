"""``atoll status``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from atoll.cli.options import DEFAULT_URL, Output, OutputOption, UrlOption
from atoll.cli.output import cell, note, print_json, print_table
from atoll.cli.requests import say_paused
from atoll.errors import NotFoundError

_COLUMNS = (
    "module",
    "topology",
    "state",
    "id",
    "version",
    "step",
    "processed",
    "lag",
    "records/s",
    "duration ms",
)


def status(
    module: Annotated[
        str | None, typer.Argument(help="Only this module.", show_default=False)
    ] = None,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show each topology's state, microbatch, lag and durations."""
    from atoll.cli.client import Client

    with Client(url) as client:
        answer = client.get("status")
    modules: dict[str, Any] = answer["modules"]
    if module is not None:
        if module not in modules:
            raise NotFoundError(
                f"no module {module!r} runs there",
                hint=f"running: {', '.join(modules) or 'none'}",
                url=url,
            )
        modules = {module: modules[module]}
    if output is Output.JSON:
        print_json({**answer, "modules": modules})
        return
    print_table(_COLUMNS, [row for name, one in modules.items() for row in _rows(name, one)])
    for name, one in modules.items():
        if one.get("error"):
            note(_failure(name, one["error"]))
        say_paused(name, one, url)
        for topology, details in one["topologies"].items():
            for line in _details(f"{name}/{topology}", details, one.get("at_ms", 0)):
                note(line)
        for depot, about in one.get("depots", {}).items():
            source = about.get("source") or {"error": None}
            if source["error"]:
                note(_failure(f"{name}: the source of depot {depot}", source["error"]))


def _rows(module: str, status: dict[str, Any]) -> list[list[Any]]:
    """One row per topology; its lag is over all depot partitions."""
    if status.get("state") == "stopped":
        return [[module, "", "stopped", *[""] * (len(_COLUMNS) - 3)]]
    return [
        [
            module,
            topology,
            details["state"],
            details["id"],
            details["version"],
            details["step"],
            details["processed"],
            sum(sum(lags) for lags in details["lag"].values()),
            round(details["records_per_second"] or 0),
            round(details["durations_ms"].get("total", 0)),
        ]
        for topology, details in status["topologies"].items()
    ]


def _details(name: str, details: dict[str, Any], now_ms: int) -> Iterator[str]:
    """What there is to say of a topology beside its row."""
    if filling := details.get("filling"):
        yield _filling(name, filling)
    for sink, told in (details.get("sinks") or {}).items():
        yield _sink(name, sink, told, now_ms)
    for each in (details["error"], *details.get("warnings", ())):
        if each:
            yield _failure(name, each)


def _filling(name: str, filling: dict[str, Any]) -> str:
    """What is filled beside a topology, how far it is, and why it does not go on."""
    left, seconds = filling["records_left"], filling["seconds_left"]
    rate = filling["records_per_second"]
    until = "" if seconds is None else f", about {seconds:.0f} s at {rate:,.0f}/s"
    said = f"{name}: filling {', '.join(filling['pstates'])}: {left:,} records left{until}"
    if filling["error"] is not None:
        return f"{said}\n" + _failure(f"filling is {filling['state']}", filling["error"])
    return said if filling["state"] == "running" else f"{said} ({filling['state']})"


def _sink(name: str, sink: str, told: dict[str, Any], now_ms: int) -> str:
    """How far a sink is, and why it does not go on."""
    waiting, last = told["waiting_microbatches"], told["last_written"]
    said = f"{name}: sink {sink} ({told['kind']}, {told['guarantee']})"
    if waiting:
        seconds = max(0, now_ms - told["oldest_ms"]) / 1000
        unit = "microbatch" if waiting == 1 else "microbatches"
        said += f" is {waiting:,} {unit} behind, {told['waiting_records']:,} rows"
        said += f", the oldest for {seconds:.0f} s"
    else:
        said += " has all"
    said += f"; last written: microbatch {last['microbatch']}" if last["number"] else ""
    return f"{said}\n" + _failure("it fails", told["error"]) if told["error"] else said


def _failure(name: str, error: dict[str, Any]) -> str:
    """Why a topology does not go on, on as many lines as an error of a command has."""
    lines = [f"{name}: {error['message']}"]
    lines += [f"where: {key}={cell(value)}" for key, value in (error.get("context") or {}).items()]
    if error.get("hint"):
        lines.append(f"to do: {error['hint']}")
    return "\n".join([*lines, f" code: {error['code']}"])
