"""How a process that runs modules says where it is served, so that doors find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from atoll.errors import UsageError
from atoll.storage.places import Place

if TYPE_CHECKING:
    from atoll.cluster.app import App
    from atoll.cluster.deploy.stopped import StoppedModule
    from atoll.storage.places import Place


def announced_host(announce: str | None) -> tuple[str, ...]:
    """The name under which it is asked by those to whom it was announced.

    Raises:
        UsageError: When that is no address.
    """
    if announce is None:
        return ()
    parts = urlsplit(announce)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise UsageError(
            f"--announce {announce!r} is no address of a service",
            hint="write it as https://a.example, or http://127.0.0.1:7410",
        )
    return (f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname,)


def announcing(root: Place, url: str) -> Callable[[App | StoppedModule], None]:
    """Says of every module that begins to run, whichever version of it, where it is served."""
    from atoll.cluster.app import App
    from atoll.server.doors.owners import announce_owner
    from atoll.storage.roots import open_store

    store = open_store(root)

    def told(module: App | StoppedModule) -> None:
        if isinstance(module, App):
            announce_owner(store, module.name, module.epoch.number, url.rstrip("/"))

    return told
