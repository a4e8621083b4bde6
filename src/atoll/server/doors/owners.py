"""Where the process that runs a module is served: an object of the root for each of its lives.

Who takes an epoch of a module runs it from then on, and says under that very number where it is
served. So nothing has to expire, and no clock is asked: the address is that of the highest epoch
or of none. A life that has not said where it is yet, or is not served at all, has no address; one
whose process died has one that nobody answers at, until the next life takes the next number.
"""

from __future__ import annotations

import contextlib
import socket

import msgspec

from atoll.errors import NotFoundError, StoppedError
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

ADDRESSES = "meta/addresses"


class Owner(msgspec.Struct, frozen=True):
    """Who runs a module.

    Attributes:
        url: Where it is served.
        host: The host that it runs on.
        epoch: The life of the module.
    """

    url: str
    host: str
    epoch: int


def announce_owner(store: ObjectStore, module: str, epoch: int, url: str) -> None:
    """Say where the life of a module with this number is served; earlier ones are forgotten."""
    objects = NumberedObjects(store, f"{ADDRESSES}/{module}")
    owner = Owner(url, socket.gethostname(), epoch)
    with contextlib.suppress(ObjectExistsError):  # said before, by this very life
        objects.create(epoch, msgspec.json.encode(owner))
    objects.delete_below(epoch)


def owner_of(store: ObjectStore, module: str) -> Owner:
    """Who runs a module now, as far as the root knows.

    Raises:
        StoppedError: When it never ran, or the life that took it over last is served nowhere (yet).
    """
    epoch = NumberedObjects(store, f"{module}/epochs").latest()
    if epoch is None:
        raise StoppedError(
            f"nobody has run module {module!r}", hint="start it: atoll run FILE.py:module"
        )
    try:
        data = NumberedObjects(store, f"{ADDRESSES}/{module}").read(epoch)
    except NotFoundError:
        raise StoppedError(
            f"the process that runs module {module!r} serves it nowhere, or not yet",
            hint="run it with atoll run; while it starts try again in a moment",
            module=module,
            epoch=epoch,
        ) from None
    return msgspec.json.decode(data, type=Owner)
