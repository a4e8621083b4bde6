"""``atoll query``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from atoll.cli.options import (
    DEFAULT_URL,
    EXIT_NOT_YET,
    WAIT_SECONDS,
    ModuleName,
    Output,
    OutputOption,
    TimeoutOption,
    UrlOption,
)
from atoll.cli.output import cell, note, print_error, print_json, print_table
from atoll.errors import UsageError, WaitTimeoutError
from atoll.schema import Map, Node, Scalar, Set

_ROWS_SHOWN_MAX = 100


def query(
    module: ModuleName,
    pstate: Annotated[str, typer.Argument(help="Name of the PState.", show_default=False)],
    keys: Annotated[
        list[str] | None, typer.Argument(help="Keys to follow, from the top.", show_default=False)
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(help="A path as JSON instead of keys.", metavar="JSON", show_default=False),
    ] = None,
    as_of: Annotated[
        int | None,
        typer.Option(
            help="Read the state as it was after this microbatch.", min=0, show_default=False
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="The most entries of a map or set to read; 0 for all. Tables show "
            f"{_ROWS_SHOWN_MAX} unless told, JSON shows all.",
            min=0,
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Wait first until all is processed that was appended before."),
    ] = False,
    timeout: TimeoutOption = WAIT_SECONDS,
    url: UrlOption = DEFAULT_URL,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read a PState at its last commit or an earlier one: all, by keys, or by a path.

    Records that were just appended show when the next microbatch has committed. With --fresh it
    waits, --timeout seconds at most, for all that the depots of the PState's topology hold now;
    exit code 5 when that takes longer.
    """
    from atoll.cli.client import Client

    if path is not None and (keys or limit is not None):
        raise UsageError("--path stands alone", hint="put keys and ranges into the path")
    if fresh and as_of is not None:
        raise UsageError("an earlier state is never fresh", hint="leave --as-of or --fresh out")
    with Client(url) as client, _in_time():
        place = ("modules", module, "pstates", pstate)
        params: dict[str, float] = {} if as_of is None else {"as_of": as_of}
        params |= {"fresh_seconds": timeout} if fresh else {}
        if path is not None:
            values = client.post(*place, "select", data={"path": _path(path)}, params=params)[
                "values"
            ]
            _show_values(values, output)
            return
        shown = limit if limit is not None else _ROWS_SHOWN_MAX
        if limit is None and output is Output.JSON:
            shown = 0
        node, value = _read(client, place, keys or [], shown, params)
    _show(node, value, output)
    if shown and isinstance(value, dict | list) and len(value) >= shown:
        note(f"the first {shown}; more with --limit N, all with --limit 0")


@contextmanager
def _in_time() -> Iterator[None]:
    """An exit code of its own for a wait that took too long."""
    try:
        yield
    except WaitTimeoutError as error:
        print_error(error)
        raise typer.Exit(EXIT_NOT_YET) from None


def _read(
    client: Any, place: tuple[str, ...], keys: list[str], limit: int, params: dict[str, float]
) -> tuple[Node, Any]:
    from atoll import schema
    from atoll.cli.keys import typed_keys

    declared = schema.from_json(client.get(*place)["schema"])
    steps, node = typed_keys(declared, keys)
    if limit and isinstance(node, Map | Set):
        steps.append(["sorted_range", {"limit": limit}])
    answer = client.post(*place, "select", data={"path": steps, "one": True}, params=params)
    return node, answer["value"]


def _path(text: str) -> list[Any]:
    try:
        path = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--path is no JSON: {error}", hint='write it like \'[["key", "a"], ["all"]]\''
        ) from None
    if not isinstance(path, list):
        raise UsageError("--path is no array", hint='write it like \'[["key", "a"], ["all"]]\'')
    return path


def _show(node: Node, value: Any, output: Output) -> None:
    from atoll.cli.tables import table_of

    if output is Output.JSON:
        print_json(value)
    elif isinstance(node, Scalar):
        typer.echo(cell(value))
    else:
        print_table(*table_of(node, value))


def _show_values(values: list[Any], output: Output) -> None:
    from atoll.cli.tables import table_of_values

    if output is Output.JSON:
        print_json(values)
    else:
        print_table(*table_of_values(values))
