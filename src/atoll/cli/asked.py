"""Which service a command asks, and with whose token: an address, or a context by its name.

======================================  =========================================
given                                   asked
======================================  =========================================
``--url``                               that address
``--context``, or ``ATOLL_CONTEXT``     the context of that name
``ATOLL_URL``                           that address
nothing                                 the context in use, else the usual address
======================================  =========================================

A token of a context goes to that context's address alone. ``ATOLL_TOKEN``, or what
``ATOLL_TOKEN_FILE`` holds, is shown to every other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, NamedTuple

import typer

from atoll.cli.credentials import token_of
from atoll.cli.options import DEFAULT_URL
from atoll.errors import UsageError

ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        envvar="ATOLL_CONTEXT",
        help="Name of the service to ask, as atoll context add kept it.",
        show_default=False,
    ),
]


class _Asked(NamedTuple):
    """What was chosen."""

    url: str
    context: str
    token: str | None


_chosen: ContextVar[_Asked | None] = ContextVar("asked", default=None)


def token_for(url: str) -> str | None:
    """The token to show at an address; None for none."""
    chosen = _chosen.get()
    if chosen is not None and chosen.context and chosen.url == url:
        return chosen.token
    return token_of()


def where(url: str) -> str:
    """What a command has to be told besides, to ask the same service."""
    chosen = _chosen.get()
    if chosen is not None and chosen.context and chosen.url == url:
        return f" --context {chosen.context}"
    return "" if url == DEFAULT_URL else f" --url {url}"


def with_contexts(app: typer.Typer) -> None:
    """Let all commands of an app that ask a service take ``--context``."""
    for command in app.registered_commands:
        callback = command.callback
        if callback is not None and "url" in inspect.signature(callback).parameters:
            command.callback = _choosing(callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_contexts(group.typer_instance)


def _choosing(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The command, told the address that the context says."""

    @functools.wraps(callback)
    def command(*, ctx: typer.Context, context: str | None = None, **given: Any) -> Any:
        asked = _choose(context, given["url"], lambda name: _source(ctx, name))
        token = _chosen.set(asked)
        try:
            return callback(**{**given, "url": asked.url})
        finally:
            _chosen.reset(token)

    signature = inspect.signature(callback, eval_str=True)
    option = inspect.Parameter(
        "context", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ContextOption
    )
    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()
    ]
    caller = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]  # Typer reads it
        parameters=[caller, *parameters, option]
    )
    command.__annotations__ = {
        **{each.name: each.annotation for each in (caller, *parameters)},
        "context": ContextOption,
    }
    return command


def _choose(context: str | None, url: str, source: Callable[[str], str]) -> _Asked:
    """What is asked.

    Raises:
        UsageError: When both are named on the command line.
        NotFoundError: When there is no such context.
    """
    from atoll.client.contexts import Contexts

    if source("url") == "COMMANDLINE":
        if context is not None and source("context") == "COMMANDLINE":
            raise UsageError("--url and --context exclude each other", hint="give one of them")
        return _Asked(url, "", None)
    if context is None and source("url") == "ENVIRONMENT":
        return _Asked(url, "", None)
    name = context or Contexts().current
    if not name:
        return _Asked(url, "", None)
    found = Contexts().get(name)
    return _Asked(found.url, name, found.secret())


def _source(ctx: typer.Context, name: str) -> str:
    """Where the value of a parameter comes from."""
    found = ctx.get_parameter_source(name)
    return "" if found is None else found.name
