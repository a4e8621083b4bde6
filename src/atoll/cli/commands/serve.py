"""``atoll serve``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from atoll.cli.options import (
    DEFAULT_PORT,
    AllowHostOption,
    HostOption,
    PortOption,
)
from atoll.cli.output import note
from atoll.cli.protecting import (
    BehindProxyOption,
    OidcOption,
    SocketOption,
    TlsCertOption,
    TlsClientCaOption,
    TlsKeyOption,
    TokensOption,
    listening,
    protect,
)
from atoll.errors import NotFoundError
from atoll.storage.places import place_of


def serve(
    root: Annotated[
        str, typer.Option(help="Folder, or s3://BUCKET/PREFIX, of modules that others run.")
    ] = ".atoll",
    host: HostOption = "127.0.0.1",
    allow_host: AllowHostOption = None,
    port: PortOption = DEFAULT_PORT,
    tokens: TokensOption = None,
    behind_proxy: BehindProxyOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientCaOption = None,
    socket: SocketOption = None,
    oidc: OidcOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every event.")] = False,
) -> None:
    """Be one more door to all modules of a root, which other processes run.

    Reads, subscriptions, tails and exports are answered from the root, also while nothing runs;
    appends, queries, waits and commands are passed on to the process that runs the module. Any
    number of doors may serve one root, on every host that reaches it.
    """
    from atoll.cli.logs import configure_logs
    from atoll.cli.signals import stopping
    from atoll.runtime.service.following import FollowedRuntimes
    from atoll.server import ServerSettings, create_app
    from atoll.server import serve as serving
    from atoll.server.doors.modules import DoorModules
    from atoll.server.serve import bind

    configure_logs(verbose=verbose)
    place = place_of(root)
    if isinstance(place, Path) and not place.is_dir():
        raise NotFoundError(
            f"there is no root {root}", hint="name the root that atoll run was started with"
        )
    protection = protect(host, root, tokens, behind_proxy, tls_cert, tls_key, tls_client_ca, oidc)
    with bind(host, port) as listener, listening(socket) as unix, stopping() as stop:
        names = (f"[{host}]" if ":" in host else host, *(allow_host or ()))
        service = create_app(
            settings=ServerSettings(hosts=names, proxies=protection.proxies),
            runtimes=FollowedRuntimes(place),
            authority=protection.authority,
            audit_root=place,
            door=DoorModules(place),
        )
        with serving(service, listener, note, tls=protection.tls, unix=unix) as address:
            stop.listen()
            if not stop.event.is_set():
                note(f"a door to {place} at {address.url}; Ctrl-C ends it, and nothing else")
                sys.stdout.write(address.url + "\n")
                sys.stdout.flush()
            stop.event.wait()
    note("stopped")
