"""Where the parts of a root lie: what lasts, and what each host keeps as a cache of it.

What lasts is below the root. The vnode stores of a host are only a cache of that. While one host
uses a root, they are in its folder ``local``. A root that several hosts share is told so by an
*identity*, an object made once; each host then keeps its cache on a disk of its own, below the
folder that the environment variable ``ATOLL_LOCAL`` names. The identity keeps a host that still
has the cache of a root apart from another root that was made at the same place later.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from atoll.errors import DamageError, NotFoundError
from atoll.storage.local import LocalStore
from atoll.storage.objects import ObjectExistsError

LOCAL_VARIABLE = "ATOLL_LOCAL"
"""The environment variable for the folder below which a host keeps its caches of shared roots."""

_IDENTITY = "meta/identity"
_TOKEN_BYTES = 16


@dataclass(frozen=True)
class RootFolders:
    """The folders of a root, as this host has them.

    Attributes:
        root: The folder of all that lasts.
        identity: Of a root that several hosts share; None while one host uses it.
        part: Of the hosts' caches the part that is meant; empty for all but what is filled.
    """

    root: Path
    identity: str | None = None
    part: str = ""

    @classmethod
    def of(cls, store: LocalStore) -> Self:
        """The folders of a root that may be shared."""
        try:
            made = store.read(_IDENTITY)
        except NotFoundError:
            return cls(store.root)
        return cls(store.root, hashlib.blake2b(made, digest_size=16).hexdigest())

    @property
    def local(self) -> Path:
        """This host's folder for what is only a cache of the root."""
        if self.identity is None:
            return self.root / "local" / self.part
        base = os.environ.get(LOCAL_VARIABLE)
        folder = Path(base) if base else Path(tempfile.gettempdir()) / f"atoll-{os.getuid()}"
        return folder / self.identity / self.part

    @property
    def worker(self) -> str:
        """Names this host's cache: who opens it again finds the same stores."""
        return f"{socket.gethostname()}:{self.local}"


def depot_folder(root: Path, module: str, depot: str) -> Path:
    """Where an embedded depot keeps its segments; a mirror is known as ``module.depot``."""
    owner, dot, name = depot.partition(".")
    return root / owner / "depots" / name if dot else root / module / "depots" / depot


def check_identity(store: LocalStore) -> None:
    """Hold that the identity of a root is what was made.

    Whoever opens the root does not ask: another identity costs the hosts their caches, no more.

    Raises:
        NotFoundError: When one host uses the root.
        DamageError: When it is not what was made.
    """
    made = store.read(_IDENTITY)
    token, checksum = made[:_TOKEN_BYTES], made[_TOKEN_BYTES:]
    # identities of earlier versions have no checksum
    if len(token) < _TOKEN_BYTES or (checksum and checksum != _checksum(token)):
        raise DamageError(
            "the identity of the root is damaged",
            hint="restore the file from a backup, or leave it as it is",
            file=_IDENTITY,
        )


def _checksum(token: bytes) -> bytes:
    return zlib.crc32(token, zlib.crc32(_IDENTITY.encode())).to_bytes(4, "little")


def share(store: LocalStore) -> RootFolders:
    """The folders of a root that several hosts share from now on."""
    try:
        token = uuid.uuid4().bytes
        store.create(_IDENTITY, token + _checksum(token))
    except ObjectExistsError:
        store.settle(_IDENTITY)
    return RootFolders.of(store)
