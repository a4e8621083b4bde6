"""What is asked of the store of a root, wherever that lies: on a disk, or in a bucket.

It adds to :class:`~atoll.storage.objects.ObjectStore` what the parts of Atoll need beside the
protocol of numbered objects: sizes, folders, files to read from by position.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Protocol, TypeGuard

from atoll.storage.local import LocalStore
from atoll.storage.objects import ObjectStore
from atoll.storage.places import BucketPlace, Place, place_of


class RootStore(ObjectStore, Protocol):
    """The store of a root or of a part of it."""

    @property
    def root(self) -> Place:
        """Where it lies. It is all that a store is made of."""
        ...

    @property
    def at_once(self) -> int:
        """How many calls are worth making at once: 1 where they do not wait for answers."""
        ...

    def size(self, name: str) -> int:
        """How many bytes the object has.

        Raises:
            NotFoundError: When there is none.
        """
        ...

    def sizes(self, prefix: str) -> dict[str, int]:
        """The names below a folder, each with its bytes: one look at all of them."""
        ...

    def stamp(self, name: str) -> Hashable:
        """What differs when another object stands, or stood in between, under the name.

        Raises:
            NotFoundError: When there is none.
        """
        ...

    def folders(self, prefix: str) -> list[str]:
        """The last parts of the folders right below a folder, sorted; "" means the root."""
        ...

    def link(self, name: str, other: str) -> None:
        """Give an object another name too, durably; nothing where it has it.

        Raises:
            ObjectExistsError: When another object has that name.
        """
        ...

    def sweep(self, prefix: str) -> int:
        """Delete what killed processes left unfinished below a folder; returns how many."""
        ...

    def delete_all(self, prefix: str) -> None:
        """Delete everything below a folder, as far as it can be."""
        ...

    def stage(self, name: str, data: bytes) -> None:
        """Write a uniquely named object that need not survive its writer."""
        ...

    def file(self, name: str) -> Path:
        """A file of this host with the object's bytes, which are fetched where they must be.

        When there is no such object, whoever opens the file finds out.
        """
        ...

    def fetch(self, names: Sequence[str]) -> None:
        """Let :meth:`file` find these here already: many at once are fetched faster."""
        ...

    def list_after(self, prefix: str, after: str | None) -> list[str]:
        """The names below a folder that sort after one of them, sorted; all when it is None."""
        ...

    def scratch(self, name: str) -> Path:
        """A file of this host to be filled, then created as an object; nobody else uses the name.

        On a disk it is the name itself, which is the caller's alone.
        """
        ...

    def create_from(self, name: str, file: Path) -> None:
        """Create an object of a file that :meth:`scratch` named; the file is used up.

        Raises:
            ObjectExistsError: When there is one of that name; the file stays.
        """
        ...

    def beginning(self, name: str, length: int) -> bytes:
        """The object's first bytes, fewer where it is shorter.

        Raises:
            NotFoundError: When there is none.
        """
        ...

    def unfinished(self) -> list[str]:
        """The names of what killed processes left unfinished."""
        ...


def is_root_store(store: ObjectStore) -> TypeGuard[RootStore]:
    """Whether a store is one of a root: those that tests keep in memory are less."""
    return hasattr(store, "stamp")


def open_store(root: Place | str) -> RootStore:
    """The store of a place; nothing is asked of it yet.

    Raises:
        UsageError: When the place cannot be, or the library for its kind is not installed.
    """
    place = place_of(root) if isinstance(root, str) else root
    if isinstance(place, BucketPlace):
        from atoll.storage.buckets.store import BucketStore

        return BucketStore(place)
    return LocalStore(place)
