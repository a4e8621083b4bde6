"""``atoll token``: tokens of a service, made where its files are. A running service sees changes.

They are made on the machine of the service and not over HTTP: whoever could make tokens with a
token would only ever be stopped by finding all that were made.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from atoll.access.audit import AuditLog, Change, moment
from atoll.access.roles import Role
from atoll.access.token_file import TokenFile
from atoll.access.tokens import Token, created, revoked, rotated
from atoll.cli.options import Output, OutputOption
from atoll.cli.output import note, print_json, print_table
from atoll.durations import parse_millis
from atoll.storage.places import place_of

app = typer.Typer(
    help="Make, list, renew and revoke the tokens that a service takes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[
    str, typer.Argument(help="Who it is for: a person or a program.", show_default=False)
]
_Root = Annotated[str, typer.Option(help="Folder or URL of the service.")]
_Tokens = Annotated[
    Path | None,
    typer.Option(help="File of the tokens, where they are not in ROOT.", show_default=False),
]
_Expires = Annotated[
    str | None,
    typer.Option(help='How long it is taken: "90 days"; "never".', show_default=False),
]
_COLUMNS = ("name", "id", "role", "modules", "created", "expires", "state")
_DAY_MS = 86_400_000


@app.command("create")
def create(
    name: _Name,
    role: Annotated[Role, typer.Option(help="What it may do.", show_default=False)],
    module: Annotated[
        list[str] | None,
        typer.Option(help="Only this module; may be given again.", show_default=False),
    ] = None,
    expires: _Expires = "90 days",
    root: _Root = ".atoll",
    tokens: _Tokens = None,
) -> None:
    """Make a token and print it, this once: only its hash is kept."""
    lives_ms = _lives_ms(expires)
    file = _file(root, tokens)
    text = file.change(
        lambda kept: created(kept, name, role, _now_ms(), lives_ms=lives_ms, modules=module)
    )
    _note(root, tokens, f"create {name} --role {role}")
    _say(text, f"{name} is {role} of {', '.join(module) if module else 'all modules'}", lives_ms)


@app.command("rotate")
def rotate(
    name: _Name,
    overlap: Annotated[str, typer.Option(help="How long the old one is still taken.")] = "1 day",
    expires: _Expires = None,
    root: _Root = ".atoll",
    tokens: _Tokens = None,
) -> None:
    """Make another token of the same name, role and modules; the old one ends a while later."""
    overlap_ms = parse_millis(overlap, "--overlap", least=0)
    lives_ms = None if expires is None else _lives_ms(expires)
    file = _file(root, tokens)
    text = file.change(lambda kept: rotated(kept, name, _now_ms(), overlap_ms, lives_ms))
    _note(root, tokens, f"rotate {name}")
    _say(text, f"the old token of {name} is taken for {overlap} more", lives_ms)


@app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="A name, or the id of one token.")],
    root: _Root = ".atoll",
    tokens: _Tokens = None,
) -> None:
    """Take it no more, from now on; sessions that were made of it end too."""
    _file(root, tokens).change(lambda kept: (revoked(kept, name, _now_ms()), None))
    _note(root, tokens, f"revoke {name}")
    note(f"{name} is revoked")


@app.command("list")
def list_tokens(
    root: _Root = ".atoll",
    tokens: _Tokens = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show all tokens, without their secrets."""
    file = _file(root, tokens)
    kept = file.read()
    if kept is None:
        note(f"there are no tokens, so a service of {root} asks nobody who calls")
    rows = [_shown(each, _now_ms()) for each in kept or ()]
    if output is Output.JSON:
        print_json(rows)
        return
    print_table(_COLUMNS, [[_text(row[column]) for column in _COLUMNS] for row in rows])


def _file(root: str, tokens: Path | None) -> TokenFile:
    return TokenFile.of(place_of(root)) if tokens is None else TokenFile(tokens)


def _note(root: str, tokens: Path | None, did: str) -> None:
    """Into the log of changes, where the tokens are those of a root."""
    if tokens is not None:
        return
    log = AuditLog.of(place_of(root))
    log.note(
        Change(
            at=moment(time.time()),
            who=f"user {os.geteuid()} of this machine",
            how="command",
            address="this machine",
            action=f"atoll token {did}",
            route="",
            outcome="done",
            status=0,
        )
    )
    log.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _lives_ms(expires: str | None) -> int | None:
    return None if expires in {None, "never"} else parse_millis(expires, "--expires")


def _say(text: str, said: str, lives_ms: int | None) -> None:
    """The token alone goes to stdout."""
    if lives_ms is not None and lives_ms >= _DAY_MS:
        said += f"; it expires in {lives_ms // _DAY_MS} days"
    note(said)
    note("keep it: it cannot be shown again")
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _shown(token: Token, now_ms: int) -> dict[str, Any]:
    return {
        "name": token.name,
        "id": token.id,
        "role": token.role,
        "modules": None if token.modules is None else list(token.modules),
        "created": _moment(token.created_ms),
        "expires": None if token.expires_ms is None else _moment(token.expires_ms),
        "state": token.ended(now_ms) or "taken",
    }


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else str(value)
