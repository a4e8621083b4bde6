"""What Atoll asks of a storage: four operations, of which one decides who was first.

Everything that two coordinators could fight over (plans, commits, cluster revisions, epochs) is
an object that exactly one of them can create. No lock and no clock takes part, so it holds on a
local disk and on an object store alike.

Names are relative posix paths (``commits/00000000000000000007``). They never begin with ``/``
and contain no empty, ``.`` or ``..`` part.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from atoll.errors import StorageError


class ObjectExistsError(StorageError):
    """An object of that name exists already: somebody else was first."""

    code: ClassVar[str] = "E-OBJECT-EXISTS"


class ObjectStore(Protocol):
    """Named, immutable byte strings. When a call returns, its effect is durable.

    All methods raise :class:`StorageError` when the storage below fails or the name is none.
    Implementations can be pickled and used from many threads and processes at once.
    """

    def create(self, name: str, data: bytes) -> None:
        """Create the object whole, or not at all.

        Raises:
            ObjectExistsError: When there is one of that name; it stays as it is.
        """
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write an object whose name nobody else uses (it holds a unique token).

        A crash in the middle may leave a part of it: the reader knows size and checksum.
        """
        ...

    def settle(self, name: str) -> None:
        """Make an object durable that is there already: its maker may have died before it could.

        A name can be seen before it is durable. Whoever goes on from an object that it did not
        make itself settles it first.

        Raises:
            NotFoundError: When there is none.
        """
        ...

    def read(self, name: str) -> bytes:
        """The object's bytes.

        Raises:
            NotFoundError: When there is none.
        """
        ...

    def exists(self, name: str) -> bool:
        """Whether the object exists."""
        ...

    def list(self, prefix: str) -> list[str]:
        """The names of all objects below the folder ``prefix``, sorted; "" means all."""
        ...

    def delete(self, name: str) -> None:
        """Delete the object; it is no error when it is missing."""
        ...


def check_name(name: str) -> str:
    """The name itself when it is a proper object name.

    Raises:
        StorageError: When the name could leave the store or has no one spelling.
    """
    parts = name.split("/")
    if not name or "\0" in name or "\\" in name or any(part in {"", ".", ".."} for part in parts):
        raise StorageError(
            "not a proper object name", hint="use a relative path without . and ..", name=name
        )
    return name
