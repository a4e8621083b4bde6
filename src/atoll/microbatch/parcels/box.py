"""The parcels of one topology for one target, numbered objects and their rows.

The target is a depot of another module, or a sink (:mod:`atoll.microbatch.parcels.sink_box`).

A parcel is made by the sender's coordinator once its commit stands, and taken by whoever runs the
depot's module. Numbers have no gap, and the depot remembers the last one as that of a producer, so
each is stored once and none is left out. The rows are further names (hard links) of the files that
the commit names: they stay until they are taken, whatever becomes of the sender.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import msgspec

from atoll.depot.producers.table import topology_producer
from atoll.errors import NotFoundError
from atoll.microbatch.parcels.rows import check_file
from atoll.pstate.store.history import FileRef
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError
from atoll.storage.roots import RootStore

_PARCELS, _ROWS = "parcels", "parcel-rows"


class Parcel(msgspec.Struct, frozen=True):
    """Rows of one commit.

    Attributes:
        timeline: The commit's timeline.
        commit: Its id.
        records: How many rows.
        sent_at_ms: When it was made.
        files: The rows, in order; relative to the root.
    """

    timeline: int
    commit: int
    records: int
    sent_at_ms: int
    files: list[FileRef]


class Waiting(msgspec.Struct, frozen=True):
    """What the depot has not taken yet.

    Attributes:
        parcels: How many commits.
        records: How many rows.
        oldest_ms: When the first of them was sent; 0 for none.
    """

    parcels: int = 0
    records: int = 0
    oldest_ms: int = 0


class Parcels:
    """Numbered parcels and their rows. For one thread at a time.

    Args:
        store: The root.
        objects: The folder of the parcels.
        rows: The folder of their rows.
    """

    def __init__(self, store: RootStore, objects: str, rows: str) -> None:
        self.store = store
        self.objects = NumberedObjects(store, objects)
        self._rows = rows
        self._known: dict[int, Parcel] = {}
        self._last: int | None = None
        """The last parcel that was seen here: from it on the next ones are found without a list."""

    def send(self, timeline: int, commit: int, files: Iterable[FileRef], now_ms: int) -> int | None:
        """Make a parcel of a commit's rows, unless there is one; when this returns it is durable.

        Returns:
            Its number; None when it, or a later one, was there.

        Raises:
            DamageError: When a file is not what the commit says.
            StorageError: When the disk refuses; call again when it works.
        """
        mine, linked = (timeline, commit), None
        while True:
            latest = self._last = self.objects.latest(self._last)
            if latest is not None:
                self.objects.settle(latest)  # another life may have died before it was durable
                last = self.read(latest)
                if (last.timeline, last.commit) >= mine:
                    return None
            linked = linked or [self._link(file) for file in files]
            parcel = Parcel(timeline, commit, sum(each.rows for each in linked), now_ms, linked)
            number = (latest or 0) + 1
            with contextlib.suppress(ObjectExistsError):  # another life sends the same commit
                self.objects.create(number, msgspec.msgpack.encode(parcel))
                self._last = number
                return number

    def read(self, number: int) -> Parcel:
        """A parcel.

        Raises:
            NotFoundError: When it was taken and is gone.
            DamageError: When it is not what was made.
        """
        if number not in self._known:
            made = msgspec.msgpack.decode(self.objects.read(number), type=Parcel)
            self._known[number] = made
        return self._known[number]

    def waiting(self) -> Waiting:
        """What is not taken yet."""
        found = list(self._untaken())
        oldest = found[0].sent_at_ms if found else 0
        return Waiting(len(found), sum(each.records for each in found), oldest)

    def has_rows(self, number: int) -> bool:
        """Whether rows of a parcel lie here, if it does."""
        try:
            return any(self.store.exists(file.name) for file in self.read(number).files)
        except NotFoundError:
            return False

    def drop(self, number: int) -> None:
        """Delete what was taken: the rows up to a number, and the parcels below it.

        The last parcel stays, so that its number is never given again.
        """
        for taken in self.objects.numbers():
            if taken > number:
                break
            with contextlib.suppress(NotFoundError):
                for file in self.read(taken).files:
                    self.store.delete(file.name)
        for gone in self.objects.delete_below(number):
            self._known.pop(gone, None)

    def rows_files(self) -> list[str]:
        """All files of rows that lie here."""
        return self.store.list(self._rows)

    def _link(self, file: FileRef) -> FileRef:
        check_file(self.store, file)
        name = f"{self._rows}/{PurePosixPath(file.name).name}"
        self.store.link(file.name, name)
        return msgspec.structs.replace(file, name=name)

    def _untaken(self) -> Iterator[Parcel]:
        """The parcels that still have rows; the first ones may have been taken just now."""
        numbers = self.objects.numbers()
        self._known = {number: self._known[number] for number in numbers if number in self._known}
        before = True
        for number in numbers:
            try:
                parcel = self.read(number)
            except NotFoundError:
                continue  # dropped meanwhile
            if before and not self.has_rows(number):
                continue
            before = False
            yield parcel


class ParcelBox(Parcels):
    """Where the parcels of one topology for one depot lie. For one thread at a time.

    Args:
        store: The root.
        module: The depot's module.
        depot: The depot.
        sender: The sender's module and topology.
    """

    def __init__(self, store: RootStore, module: str, depot: str, sender: tuple[str, str]) -> None:
        folder, own = f"{module}/depots/{depot}", "/".join(sender)
        super().__init__(store, f"{folder}/{_PARCELS}/{own}", f"{folder}/{_ROWS}/{own}")
        self.module = module
        self.depot = depot
        self.sender = sender

    @property
    def producer_id(self) -> str:
        """As which producer its parcels are stored."""
        return topology_producer(*self.sender)


def boxes_for(store: RootStore, module: str, depot: str) -> list[ParcelBox]:
    """Those of all topologies that have ever sent something to a depot."""
    folder = f"{module}/depots/{depot}/{_PARCELS}"
    return [
        ParcelBox(store, module, depot, (sender, topology))
        for sender in store.folders(folder)
        for topology in store.folders(f"{folder}/{sender}")
    ]
