"""What ``atoll run`` needs before it listens where others reach it."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from atoll.cli.output import note
from atoll.client.tokens import is_loopback
from atoll.errors import UsageError
from atoll.storage.places import Place, place_of

if TYPE_CHECKING:
    from atoll.access.authority import Authority
    from atoll.server.listening.tls import Tls

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


TlsCertOption = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of the service's certificate and those that signed it; it speaks TLS then.",
        show_default=False,
    ),
]

TlsKeyOption = Annotated[
    Path | None, typer.Option(help="PEM file of the certificate's key.", show_default=False)
]

TlsClientCaOption = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of who signs clients' certificates: who has none cannot connect.",
        show_default=False,
    ),
]

SocketOption = Annotated[
    Path | None,
    typer.Option(
        help="Unix socket to listen on besides; only the user that runs the service can connect.",
        show_default=False,
    ),
]


OidcOption = Annotated[
    Path | None,
    typer.Option(
        help="JSON file of whose signed tokens are taken besides (OpenID Connect).",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Protection:
    """How the service is protected.

    Attributes:
        authority: Who says who calls.
        proxies: The only networks that may connect, where a proxy stands before the service.
        tls: What it speaks; plain HTTP without.
    """

    authority: Authority
    proxies: tuple[str, ...] = ()
    tls: Tls | None = None


def protect(
    host: str,
    root: Place | str,
    tokens: Path | None = None,
    behind_proxy: list[str] | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_client_ca: Path | None = None,
    oidc: Path | None = None,
) -> Protection:
    """The protection of a service that will listen on an address.

    Raises:
        UsageError: When others could reach it and nobody asked who they are, or all could read
            what is said.
    """
    from atoll.access.authority import Authority
    from atoll.access.oidc import read_oidc

    proxies = tuple(_network(each) for each in behind_proxy or ())
    authority = Authority.of(place_of(root), tokens, None if oidc is None else read_oidc(oidc))
    tls = _tls(tls_cert, tls_key, tls_client_ca)
    if not is_loopback(host):
        if not authority.required:
            raise UsageError(
                f"other machines reach {host}, and there are no tokens",
                hint=f"make one first: atoll token create NAME --role admin --root {root}",
                host=host,
            )
        if not proxies and tls is None:
            raise UsageError(
                f"other machines reach {host}, and would send their tokens readable by all",
                hint="give it a certificate: --tls-cert FILE --tls-key FILE; or put a proxy that "
                "speaks TLS before it, and name its address with --behind-proxy",
                host=host,
            )
    if proxies:
        note(
            f"only {', '.join(proxies)} and this machine may connect; trusted to speak TLS to "
            "clients, and to say their addresses in X-Forwarded-For, but not who they are"
        )
    return Protection(authority, proxies, tls)


def listening(path: Path | None) -> AbstractContextManager[socket.socket | None]:
    """The Unix socket, where one is wanted.

    Raises:
        UsageError: When there cannot be one.
    """
    if path is None:
        return nullcontext()
    from atoll.server.listening.unix import unix_listener

    return unix_listener(path)


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    """What the files say.

    Raises:
        UsageError: When one is missing, or they cannot be used.
    """
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise UsageError(
            "TLS needs both a certificate and its key", hint="give --tls-cert and --tls-key"
        )
    from atoll.server.listening.tls import Tls, TlsFiles

    return Tls(TlsFiles(certificate, key, client_ca))


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise UsageError(
            f"--behind-proxy {text!r} is no address or network",
            hint="write it like 10.0.0.5 or 10.0.0.0/24",
        ) from None
