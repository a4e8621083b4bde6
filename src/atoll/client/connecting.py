"""Connect to a deployed module: over HTTP to its service, or to its root for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from atoll.client.app import RemoteApp
from atoll.client.asking.calls import Call
from atoll.client.wire import Address, AsyncWire, Wire
from atoll.errors import NotFoundError, UsageError
from atoll.storage.places import Place
from atoll.views.connect import Connected
from atoll.views.connect import connect as connect_root

if TYPE_CHECKING:
    from atoll.client.async_app import AsyncRemoteApp

__all__ = ["connect", "connect_async"]

_RETRY_SECONDS = 10.0
_SCHEMES = ("http://", "https://", "unix://")


@overload
def connect(target: Place, module: str) -> Connected: ...
@overload
def connect(
    target: str,
    module: str | None = None,
    *,
    token: str | None = None,
    retry_seconds: float = _RETRY_SECONDS,
) -> RemoteApp: ...
def connect(
    target: Place | str,
    module: str | None = None,
    *,
    token: str | None = None,
    retry_seconds: float = _RETRY_SECONDS,
) -> Connected | RemoteApp:
    """A deployed module: over HTTP all of it, or under a root folder for reading.

    Args:
        target: The address of a service, ``http://127.0.0.1:7410``, which gives a
            :class:`~atoll.client.app.RemoteApp`; or the folder of a root, which gives what reads
            its state from any process that reaches it, with nothing running. A text that is no
            address is a folder; type checkers know it as one when it is a ``Path``.
        module: The module; needed for a root, and where a service has several.
        token: What shows the service who asks.
        retry_seconds: For how long what may be sent again is, when nothing answers.

    Raises:
        NotFoundError: When there is no such module.
        UsageError: When the service has several modules and none is named.
        ServiceUnreachableError: When nothing answers at the address.
    """
    if isinstance(target, str) and target.lower().startswith(_SCHEMES):
        address = Address(target, token, retry_seconds)
        wire = Wire(Address(target, token, retry_seconds=0.0))
        try:
            return RemoteApp(address, _chosen(wire.run(_MODULES), module))
        finally:
            wire.close()
    if token is not None:
        raise UsageError("a root folder takes no token", hint="leave token out")
    if module is None:
        raise UsageError(
            f"{str(target)!r} is no address, and as a root folder needs the module's name",
            hint="connect('http://127.0.0.1:7410'), or connect(root, 'module')",
        )
    return connect_root(target, module)


async def connect_async(
    url: str,
    module: str | None = None,
    *,
    token: str | None = None,
    retry_seconds: float = _RETRY_SECONDS,
) -> AsyncRemoteApp:
    """A module on a service, for tasks of an event loop: its methods are awaited.

    Args:
        url: The address of the service.
        module: The module; needed where the service has several.
        token: What shows the service who asks.
        retry_seconds: For how long what may be sent again is, when nothing answers.

    Raises:
        NotFoundError: When there is no such module.
        UsageError: When the service has several modules and none is named.
        ServiceUnreachableError: When nothing answers at the address.
    """
    from atoll.client.async_app import AsyncRemoteApp

    wire = AsyncWire(Address(url, token, retry_seconds=0.0))
    try:
        listed = await wire.run(_MODULES)
    finally:
        await wire.close()
    return AsyncRemoteApp(Address(url, token, retry_seconds), _chosen(listed, module))


def _names(data: Any) -> list[str]:
    return [each["name"] for each in data["modules"]]


_MODULES = Call("GET", ("v1", "modules"), _names)


def _chosen(listed: list[str], module: str | None) -> str:
    """The module that is meant.

    Raises:
        NotFoundError: When there is none of that name, or none at all.
        UsageError: When there are several.
    """
    known = ", ".join(sorted(listed)) or "none"
    if module is None and len(listed) == 1:
        return listed[0]
    if module is None and listed:
        raise UsageError("the service has several modules", hint=f"name one of: {known}")
    if module is None or module not in listed:
        raise NotFoundError(f"no module {module!r} runs there", hint=f"running: {known}")
    return module
