"""What ``atoll run`` needs before it listens where others reach it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll.cli.output import note
from atoll.client.tokens import is_loopback
from atoll.errors import UsageError

if TYPE_CHECKING:
    from atoll.access.authority import Authority

TokensOption = Annotated[
    Path | None,
    typer.Option(
        help="File of the tokens that are taken; those made in ROOT without it.",
        show_default=False,
    ),
]

BehindProxyOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Address or network of a proxy that speaks TLS to the clients; only it may connect, "
        "and it alone is believed which address a client has. May be given again.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Protection:
    """How the service is protected.

    Attributes:
        authority: Who says who calls.
        proxies: The only networks that may connect, where a proxy stands before the service.
    """

    authority: Authority
    proxies: tuple[str, ...] = ()


def protect(
    host: str, root: Path, tokens: Path | None, behind_proxy: list[str] | None
) -> Protection:
    """The protection of a service that will listen on an address.

    Raises:
        UsageError: When others could reach it and nobody asked who they are, or all could read
            what is said.
    """
    from atoll.access.authority import Authority

    proxies = tuple(_network(each) for each in behind_proxy or ())
    authority = Authority.of(root, tokens)
    if not is_loopback(host):
        if not authority.required:
            raise UsageError(
                f"other machines reach {host}, and there are no tokens",
                hint=f"make one first: atoll token create NAME --role admin --root {root}",
                host=host,
            )
        if not proxies:
            raise UsageError(
                f"other machines reach {host}, and would send their tokens readable by all",
                hint="put a proxy that speaks TLS before it, and name its address with "
                "--behind-proxy; or listen on 127.0.0.1",
                host=host,
            )
    if proxies:
        note(
            f"only {', '.join(proxies)} and this machine may connect; trusted to speak TLS to "
            "clients, and to say their addresses in X-Forwarded-For, but not who they are"
        )
    return Protection(authority, proxies)


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise UsageError(
            f"--behind-proxy {text!r} is no address or network",
            hint="write it like 10.0.0.5 or 10.0.0.0/24",
        ) from None
