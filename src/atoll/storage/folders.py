"""Where the parts of a root lie: what lasts, and what each host keeps as a cache of it.

What lasts is below the root. The vnode stores of a host are only a cache of that. While one host
uses a root, they are in its folder ``local``. A root that several hosts share, and one in a
bucket, has an *identity*, an object made once; each host then keeps its cache on a disk of its
own, below the folder that the environment variable ``ATOLL_LOCAL`` names. The identity keeps a host
that still has the cache of a root apart from another root that was made at the same place later.
"""

from __future__ import annotations

import socket
import uuid
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from atoll.errors import DamageError, NotFoundError
from atoll.storage.objects import ObjectExistsError
from atoll.storage.places import IDENTITY, BucketPlace, Place, identity_name, local_base, place_of
from atoll.storage.roots import RootStore, open_store

_TOKEN_BYTES = 16


@dataclass(frozen=True)
class RootFolders:
    """The folders of a root, as this host has them.

    Attributes:
        root: The place of all that lasts.
        identity: Of a root that several hosts share, or that lies in a bucket; None while one
            host uses a folder.
        part: Of the hosts' caches the part that is meant; empty for all but what is filled.
        one_host: Whether all tasks run on this host, wherever the root lies.
    """

    root: Place
    identity: str | None = None
    part: str = ""
    one_host: bool = False

    @classmethod
    def of(cls, store: RootStore) -> Self:
        """The folders of a root that may be shared."""
        try:
            made = store.read(IDENTITY)
        except NotFoundError:
            return cls(store.root)
        return cls(store.root, identity_name(made))

    @property
    def local(self) -> Path:
        """This host's folder for what is only a cache of the root."""
        if self.identity is not None:
            return local_base() / self.identity / self.part
        if isinstance(self.root, Path):
            return self.root / "local" / self.part
        raise NotFoundError(
            "there is no root here yet", hint="run a module on it", root=str(self.root)
        )

    @property
    def scattered(self) -> bool:
        """Whether tasks may run on several hosts."""
        return self.identity is not None and not self.one_host

    @property
    def worker(self) -> str:
        """Names this host's cache: who opens it again finds the same stores."""
        return f"{socket.gethostname()}:{self.local}"


def depot_folder(root: Place, module: str, depot: str) -> Place:
    """Where an embedded depot keeps its segments; a mirror is known as ``module.depot``."""
    owner, dot, name = depot.partition(".")
    return root / owner / "depots" / name if dot else root / module / "depots" / depot


def check_identity(store: RootStore) -> None:
    """Hold that the identity of a root is what was made.

    Whoever opens the root does not ask: another identity costs the hosts their caches, no more.

    Raises:
        NotFoundError: When one host uses the root.
        DamageError: When it is not what was made.
    """
    made = store.read(IDENTITY)
    token, checksum = made[:_TOKEN_BYTES], made[_TOKEN_BYTES:]
    # identities of earlier versions have no checksum
    if len(token) < _TOKEN_BYTES or (checksum and checksum != _checksum(token)):
        raise DamageError(
            "the identity of the root is damaged",
            hint="restore the file from a backup, or leave it as it is",
            file=IDENTITY,
        )


def _checksum(token: bytes) -> bytes:
    return zlib.crc32(token, zlib.crc32(IDENTITY.encode())).to_bytes(4, "little")


def begin_on(root: Place | str, *, shared: bool) -> RootFolders:
    """The folders of a root that a cluster is started on.

    A bucket is proved to be fit first; it has an identity, however many hosts use it.

    Args:
        root: A folder or a URL.
        shared: Whether tasks run on several hosts.

    Raises:
        UsageError: When there can be no root.
        UnsafeStoreError: When the bucket's create is not atomic.
        CredentialsError: When the bucket does not accept who asks.
    """
    place = place_of(root)
    store = open_store(place)
    if isinstance(place, BucketPlace):
        from atoll.storage.buckets.probe import probe
        from atoll.storage.buckets.store import BucketStore

        probe(BucketStore(place))
        return replace(share(store), one_host=not shared)
    return share(store) if shared else RootFolders.of(store)


def share(store: RootStore) -> RootFolders:
    """The folders of a root that several hosts share from now on."""
    try:
        token = uuid.uuid4().bytes
        store.create(IDENTITY, token + _checksum(token))
    except ObjectExistsError:
        store.settle(IDENTITY)
    return RootFolders.of(store)
