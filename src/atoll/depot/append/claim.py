"""A writer's claim to a depot: whoever claims last is the writer, and the others find out.

A claim is a numbered object. Whoever makes one deletes all earlier ones, and only then looks at
the segments. An earlier writer checks after each fsync, before it acknowledges: if its own claim
is gone, the append is not acknowledged. So whatever it did acknowledge was in the files before
the later writer looked.

Its own claim is the file that it made, not the name: somebody who looked before may make a claim of
a past number again, for the moment until it sees the later ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
import weakref
from pathlib import Path

import msgspec

from atoll.errors import DamageError, FencedError, NotFoundError, StorageError
from atoll.storage.local import storage_errors
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError
from atoll.storage.places import Place
from atoll.storage.roots import open_store

_CLAIM_BYTES_MAX = 4096


class _Holder(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    host: str
    pid: int
    nonce: str = ""
    """Of this claim alone; those of earlier versions have none."""


class WriterClaim:
    """Makes the next claim of a depot.

    Args:
        folder: The depot's folder.
        epoch: The coordinator's epoch; one lower than the last claim's is refused.

    Raises:
        FencedError: When a later epoch has claimed the depot.
        DamageError: When the last claim cannot be read.
    """

    def __init__(self, folder: Place, epoch: int) -> None:
        """Claim: from now on no earlier writer's append is acknowledged."""
        self.folder = folder
        self.epoch = epoch
        self._nonce = uuid.uuid4().hex
        self._claims = NumberedObjects(open_store(folder), "writers")
        self.number = self._take_number()
        self._claims.delete_below(self.number)
        self._own = str(folder / self._claims.name(self.number))
        self._file = self._opened() if isinstance(folder, Path) else None
        if self._file is None:
            self.check()

    def check(self) -> None:
        """Whether the file of that name is still the claim's: one system call, or one request.

        Raises:
            FencedError: When somebody claimed the depot after this writer and goes on to use it.
            StorageError: When the disk does not say.
        """
        if self._file is None:
            holder = self._holder(self.number)
            if holder is None or holder.nonce != self._nonce:
                raise self._fenced(self._holder(self._claims.latest() or 0))
            return
        try:
            found = os.stat(self._own)  # noqa: PTH116  # on the path of every append
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise StorageError("the depot's claim cannot be looked up", file=self._own) from error
        if found is None or (found.st_dev, found.st_ino) != self._file:
            raise self._fenced(self._holder(self._claims.latest() or 0))

    def _opened(self) -> tuple[int, int]:
        """Device and inode of the claim's file, which stays open so that no other one gets them."""
        with storage_errors(self._own), contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self._own, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, descriptor)
            if self._nonce.encode() in os.pread(descriptor, _CLAIM_BYTES_MAX, 0):
                found = os.fstat(descriptor)
                return found.st_dev, found.st_ino
        raise self._fenced(self._holder(self._claims.latest() or 0))

    def _take_number(self) -> int:
        """Make the claim with the highest number."""
        own = _Holder(self.epoch, socket.gethostname(), os.getpid(), self._nonce)
        payload = msgspec.msgpack.encode(own)
        while True:
            latest = self._claims.latest() or 0
            holder = self._holder(latest)
            if holder is not None and holder.epoch > self.epoch:
                raise self._fenced(holder)
            with contextlib.suppress(ObjectExistsError):
                self._claims.create(latest + 1, payload)
                if self._claims.latest() == latest + 1:
                    return latest + 1
                # others went on meanwhile and deleted what was there: this number is a past one
                self._claims.store.delete(self._claims.name(latest + 1))

    def _holder(self, number: int) -> _Holder | None:
        """Who made the claim; None when it is gone, because a later one has followed."""
        try:
            return msgspec.msgpack.decode(self._claims.read(number), type=_Holder)
        except NotFoundError:
            return None
        except DamageError as error:
            file = self.folder / self._claims.name(number)
            raise DamageError(
                f"the object that says who writes depot {self.folder.name!r} is damaged: "
                + error.message.rpartition(": ")[2],
                hint="restore the file from a backup, or delete it while no process runs the "
                "module: nothing else is in it",
                depot=self.folder.name,
                file=str(file),
            ) from error

    def _fenced(self, holder: _Holder | None) -> FencedError:
        about = {} if holder is None else msgspec.structs.asdict(holder)
        about.pop("nonce", None)
        return FencedError(
            "another process writes this depot now",
            hint="append there; this process must not write any more",
            depot=self.folder.name,
            **about,
        )
