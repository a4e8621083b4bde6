"""Lives of a module's coordinator: each takes the next number, and the highest one is in charge.

Nothing is locked. A life that finds a higher number stops before it acknowledges or commits
anything more; if it does not look in time, the create-if-absent of the commit stops it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import NoReturn

import msgspec

from atoll.errors import AtollError, FencedError, StorageError
from atoll.storage.glances import Glance
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore


class Life(msgspec.Struct, frozen=True):
    """Who took an epoch, for the message to whoever is fenced by it."""

    host: str
    pid: int
    began_at_ms: int


class Epoch:
    """A number taken, and the means to see whether it is still the highest."""

    def __init__(self, objects: NumberedObjects, number: int) -> None:
        """Made by :func:`claim_epoch`."""
        self.objects = objects
        self.number = number
        self._glance = Glance(objects.store)

    def check(self) -> None:
        """Refuse to go on when a later life exists. One system call, or a request now and then.

        A disk that cannot say lets it go on: nothing rests on this look.

        Raises:
            FencedError: With the host and process of the later life.
        """
        with contextlib.suppress(StorageError):
            if self._glance.exists(self.objects.name(self.number + 1)):
                self._refuse()

    def _refuse(self) -> NoReturn:
        try:
            later = msgspec.msgpack.decode(self.objects.read(self.number + 1), type=Life)
            who = f"process {later.pid} on {later.host}"
        except (AtollError, msgspec.MsgspecError):  # whoever it is, the number is taken
            who = "another process"
        raise _fenced(self.number, who)


def _fenced(number: int, who: str) -> FencedError:
    return FencedError(
        f"epoch {number} was fenced by {who}",
        hint="this module now runs there; stop this process",
        epoch=number,
        fenced_by=who,
    )


def refuse_other_processes(store: ObjectStore, module: str, epoch: int) -> None:
    """Hold that only this process has taken epochs of a module since the one given.

    Raises:
        FencedError: When another one has.
    """
    objects = NumberedObjects(store, f"{module}/epochs")
    for number in objects.numbers(epoch + 1):
        life = msgspec.msgpack.decode(objects.read(number), type=Life)
        if (life.host, life.pid) != (socket.gethostname(), os.getpid()):
            raise _fenced(epoch, f"process {life.pid} on {life.host}")


def claim_epoch(store: ObjectStore, module: str) -> Epoch:
    """Take the next epoch of a module; every earlier one is fenced from now on."""
    objects = NumberedObjects(store, f"{module}/epochs")
    life = Life(socket.gethostname(), os.getpid(), int(time.time() * 1000))
    while True:
        number = (objects.latest() or 0) + 1
        try:
            objects.create(number, msgspec.msgpack.encode(life))
        except ObjectExistsError:
            continue
        return Epoch(objects, number)
