"""The parcels of one topology for one sink: what it is to get, and how far it has been written.

As for a depot of another module, a parcel is made when its commit stands, and stays until it is
taken, whatever becomes of the commit. Here nobody but this box remembers what was taken, so that is
a numbered object too, made after the sink has said that it holds a parcel and before its rows go.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from atoll.errors import NotFoundError
from atoll.microbatch.parcels.box import Parcel, Parcels, Waiting
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError

if TYPE_CHECKING:
    from atoll.pstate.store.history import FileRef
    from atoll.storage.objects import ObjectStore
    from atoll.storage.roots import RootStore

_TOKEN_BYTES = 8


class Taken(msgspec.Struct, frozen=True):
    """How far a sink has been written.

    Attributes:
        number: The last parcel that it holds; 0 for none.
        timeline: That of its commit.
        microbatch: Its commit's id.
        at_ms: When it was noted.
    """

    number: int = 0
    timeline: int = 0
    microbatch: int = 0
    at_ms: int = 0


class SinkBox(Parcels):
    """Where the parcels of one topology for one sink lie. Safe to share between threads.

    Args:
        store: The root.
        module: The module.
        topology: The topology.
        sink: The sink.
    """

    def __init__(self, store: RootStore, module: str, topology: str, sink: str) -> None:
        folder = _folder(module, topology, sink)
        super().__init__(store, f"{folder}/parcels", f"{folder}/rows")
        self.place = (module, topology, sink)
        self.notes = NumberedObjects(store, f"{folder}/taken")
        self._tokens = sink_identity(store, module, topology, sink)
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, Parcel]] | None = None
        self._records = 0

    def identity(self) -> str:
        """What no other sink is ever called, on this root or another; made when first asked for."""
        made = self._tokens.create_or_find(1, secrets.token_hex(_TOKEN_BYTES).encode())
        token = self._tokens.read(1) if made is None else made
        return "/".join((*self.place, token.decode()))

    def read(self, number: int) -> Parcel:
        """A parcel; many may wait, so none is kept in memory.

        Raises:
            NotFoundError: When it was taken and is gone.
            DamageError: When it is not what was made.
        """
        return msgspec.msgpack.decode(self.objects.read(number), type=Parcel)

    def send(self, timeline: int, commit: int, files: Iterable[FileRef], now_ms: int) -> int | None:
        """As for any parcel; it counts as waiting from now on."""
        with self._lock:
            number = super().send(timeline, commit, files, now_ms)
            if number is not None and self._waiting is not None:
                parcel = self.read(number)
                self._waiting.append((number, _slim(parcel)))
                self._records += parcel.records
        return number

    def taken(self) -> Taken:
        """How far the sink has been written, as far as it was noted.

        Raises:
            DamageError: When the note is not what was made.
        """
        number = self.notes.latest()
        if number is None:
            return Taken()
        return msgspec.msgpack.decode(self.notes.read(number), type=Taken)

    def take(self, number: int, now_ms: int) -> Taken:
        """Note that the sink holds a parcel, durably, then let go of its rows.

        The parcel itself stays until the next one is taken: it says which number was the last.

        Raises:
            NotFoundError: When there is no such parcel.
            StorageError: When the disk refuses; call again when it works.
        """
        parcel = self.read(number)
        note = Taken(number, parcel.timeline, parcel.commit, now_ms)
        with contextlib.suppress(ObjectExistsError):  # a life before noted it, and died
            self.notes.create(number, msgspec.msgpack.encode(note))
        for file in parcel.files:
            self.store.delete(file.name)
        for before in (self.objects, self.notes):
            with contextlib.suppress(NotFoundError):
                self.store.delete(before.name(number - 1))
        with self._lock:
            while self._waiting and self._waiting[0][0] <= number:
                self._records -= self._waiting.popleft()[1].records
        return note

    def tidy(self) -> None:
        """Drop what a life that died between taking and dropping has left."""
        taken = self.taken().number
        for number in self.objects.numbers():
            if number <= taken:
                for file in self.read(number).files:
                    self.store.delete(file.name)
        self.objects.delete_below(taken)
        self.notes.delete_below(taken)

    def waiting(self) -> Waiting:
        """What the sink has not been noted to hold."""
        with self._lock:
            if self._waiting is None:
                self._count()
            assert self._waiting is not None
            oldest = self._waiting[0][1].sent_at_ms if self._waiting else 0
            return Waiting(len(self._waiting), self._records, oldest)

    def _count(self) -> None:
        numbers = self.objects.numbers(self.taken().number + 1)
        self._waiting = deque((number, _slim(self.read(number))) for number in numbers)
        self._records = sum(each.records for _, each in self._waiting)


def _slim(parcel: Parcel) -> Parcel:
    """Without the names of its files: many may wait."""
    return msgspec.structs.replace(parcel, files=[])


def sink_identity(store: ObjectStore, module: str, topology: str, sink: str) -> NumberedObjects:
    """Where the token of a sink is, under number 1, as long as the sink is not removed."""
    return NumberedObjects(store, f"{_folder(module, topology, sink)}/identity")


def _folder(module: str, topology: str, sink: str) -> str:
    return f"{module}/{topology}/sinks/{sink}"
