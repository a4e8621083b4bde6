"""``atoll context``: services by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.options import Output, OutputOption
from atoll.cli.output import note, print_json, print_table
from atoll.errors import UsageError

app = typer.Typer(
    help="Names for several services, with the tokens that they take.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="Name of the context.", show_default=False)]


@app.command()
def add(
    name: Name,
    url: Annotated[str, typer.Argument(help="Address of the service.", show_default=False)],
    token_env: Annotated[
        str | None,
        typer.Option(help="The environment variable that holds its token.", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="The file that holds its token.", show_default=False)
    ] = None,
    token_stdin: Annotated[
        bool,
        typer.Option("--token-stdin", help="Read the token from stdin, and keep it with the name."),
    ] = False,
) -> None:
    """Keep the address of a service under a name; the first one kept is used from then on."""
    from atoll.client.contexts import Context, Contexts

    if (token_env is not None) + (token_file is not None) + token_stdin > 1:
        raise UsageError("a context has one token", hint="say one place where it is")
    token = sys.stdin.readline().strip() if token_stdin else ""
    if token_stdin and not token:
        raise UsageError("there is no token on stdin", hint="atoll context add ... < FILE")
    file = "" if token_file is None else str(token_file.expanduser().absolute())
    contexts = Contexts()
    contexts.add(name, Context(url, token_env or "", file, token))
    note(f"kept in {contexts.file}; in use: {contexts.current}")


@app.command()
def use(name: Name) -> None:
    """Let commands ask this service unless --url or --context says otherwise."""
    from atoll.client.contexts import Contexts

    contexts = Contexts()
    contexts.use(name)
    note(f"in use: {name}, {contexts.get(name).url}")


@app.command("list")
def list_(output: OutputOption = Output.TABLE) -> None:
    """Show all contexts, and where their tokens are; never a token."""
    from atoll.client.contexts import Contexts

    contexts = Contexts()
    told = [
        {"name": name, "url": each.url, "token": each.kept, "used": name == contexts.current}
        for name, each in contexts.all.items()
    ]
    if output is Output.JSON:
        print_json(told)
        return
    rows = [
        ["*" if each["used"] else "", each["name"], each["url"], each["token"]] for each in told
    ]
    print_table(("used", "name", "url", "token"), rows)


@app.command()
def remove(name: Name) -> None:
    """Forget a context, and the token that is kept with it."""
    from atoll.client.contexts import Contexts

    Contexts().remove(name)
    note(f"forgotten: {name}")
