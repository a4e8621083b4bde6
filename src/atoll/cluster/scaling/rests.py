"""Which modules of a root run in no process, as far as can be known.

A life that ends says so by an object with the number of its epoch; one that was killed says
nothing. On its host it is seen whether its process is there. That serves people only, who are
told at once that nobody will answer: safe is a change of placement either way.
"""

from __future__ import annotations

import contextlib
import os
import socket

import msgspec

from atoll.logs import get_logger
from atoll.microbatch.epochs import Epoch, Life
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

_log = get_logger("atoll.cluster")

_KEPT = 3


def note_rest(store: ObjectStore, module: str, epoch: Epoch) -> None:
    """Say that the life of this epoch has ended.

    A disk that refuses is logged and no error: nothing rests on it but a quick answer.
    """
    objects = _rests(store, module)
    try:
        with contextlib.suppress(ObjectExistsError):
            objects.create(epoch.number, b"")
        objects.delete_below(epoch.number - _KEPT)
    except Exception as error:  # noqa: BLE001 - as said
        _log.warning("that the module does not run is not noted", module=module, error=str(error))


def is_at_rest(store: ObjectStore, module: str) -> bool:
    """Whether the last life of a module has ended, or its process is not there any more."""
    epochs = NumberedObjects(store, f"{module}/epochs")
    number = epochs.latest()
    if number is None or _rests(store, module).exists(number):
        return True
    life = msgspec.msgpack.decode(epochs.read(number), type=Life)
    return life.host == socket.gethostname() and not _is_there(life.pid)


def _rests(store: ObjectStore, module: str) -> NumberedObjects:
    return NumberedObjects(store, f"meta/rests/{module}")


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
