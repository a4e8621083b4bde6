"""The store of a root in a bucket: the same operations as on a disk, by requests."""

from __future__ import annotations

import builtins
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from atoll.errors import NotFoundError
from atoll.storage.buckets.cache import ObjectCache
from atoll.storage.buckets.requests import Requests
from atoll.storage.objects import ObjectExistsError, check_name
from atoll.storage.places import IDENTITY, BucketPlace, identity_name, local_base

_AT_ONCE = 16
_STAMPS_MAX = 10_000
_caches: dict[str, ObjectCache] = {}
_stamps: OrderedDict[tuple[str, str], Hashable] = OrderedDict()
_lock = threading.Lock()
_without_identity: list[tempfile.TemporaryDirectory[str]] = []


class BucketStore:
    """An :class:`~atoll.storage.roots.RootStore` on a prefix of a bucket.

    Args:
        place: Where. It is all that is kept, so a store can be pickled.
    """

    look_seconds = 1.0
    """Between two looks at what other processes do, where nothing rests on it."""

    def __init__(self, place: BucketPlace) -> None:
        self._place = place
        self._requests = Requests(place.bucket)

    @property
    def root(self) -> BucketPlace:
        """Where it lies."""
        return self._place

    @property
    def at_once(self) -> int:
        """As many as wait for answers side by side."""
        return _AT_ONCE

    def __repr__(self) -> str:
        """Name the place."""
        return f"BucketStore({str(self.root)!r})"

    def create(self, name: str, data: bytes) -> None:
        """Create the object whole, or raise ObjectExistsError and leave the one there.

        Raises:
            UnknownOutcomeError: When the store did not say in time whether it is made.
        """
        self._requests.create(self._key(name), data)

    def write(self, name: str, data: bytes) -> None:
        """Write a uniquely named object."""
        self._requests.put(self._key(name), bytes(data))

    def stage(self, name: str, data: bytes) -> None:
        """The same: what a bucket took is durable."""
        self.write(name, data)

    def settle(self, name: str) -> None:
        """Nothing to do: what can be seen in a bucket is durable."""

    def read(self, name: str) -> bytes:
        """The object's bytes, or NotFoundError."""
        return self._requests.get(self._key(name))

    def exists(self, name: str) -> bool:
        """Whether the object exists: one request."""
        try:
            self._requests.head(self._key(name))
        except NotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        """How many bytes the object has, or NotFoundError."""
        return self._requests.head(self._key(name))[0]

    def stamp(self, name: str) -> Hashable:
        """Tag and time of the object, or NotFoundError; what was seen once is believed.

        An object is made once under its name, as long as the root is the same.
        """
        key = (self._place.bucket, self._key(name))
        with _lock:
            known = _stamps.get(key)
        if known is None:
            known = self._requests.head(key[1])[1]
            with _lock:
                _stamps[key] = known
                while len(_stamps) > _STAMPS_MAX:
                    _stamps.popitem(last=False)
        return known

    def list(self, prefix: str) -> builtins.list[str]:
        """The names below the folder ``prefix``, sorted; those that cannot be ours are left out."""
        return list(self.sizes(prefix))

    def list_after(self, prefix: str, after: str | None) -> builtins.list[str]:
        """The names below a folder that sort after one of them, sorted: fewer pages."""
        return list(self._sizes(prefix, None if after is None else self._key(after)))

    def sizes(self, prefix: str) -> dict[str, int]:
        """The names below a folder, sorted, each with its bytes."""
        return self._sizes(prefix, None)

    def folders(self, prefix: str) -> builtins.list[str]:
        """The last parts of the folders right below a folder, sorted."""
        found = self._requests.folders(self._folder(prefix))
        return sorted(name.rstrip("/").rpartition("/")[2] for name in found)

    def link(self, name: str, other: str) -> None:
        """Copy an object to another name; nothing where that holds the same bytes already."""
        data = self.read(name)
        try:
            self.create(other, data)
        except ObjectExistsError:
            if self.read(other) != data:
                raise

    def sweep(self, prefix: str) -> int:
        """Nothing to do: an object is whole or not there."""
        del prefix
        return 0

    def delete(self, name: str) -> None:
        """Delete the object if it is there."""
        self._requests.delete(self._key(name))
        with _lock:
            _stamps.pop((self._place.bucket, self._key(name)), None)
        known = _caches.get(str(self._place.top))
        if known is not None:
            known.drop(self._key(name))

    def delete_all(self, prefix: str) -> None:
        """Delete everything below a folder."""
        names = self.list(prefix)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.delete, names))

    def file(self, name: str) -> Path:
        """A file with the object's bytes, in the cache of this host."""
        cache, key = self._cache(), self._key(name)
        found = cache.find(key)
        if found is not None:
            return found
        try:
            data = self._requests.get(key)
        except NotFoundError:
            return cache.folder / key
        return cache.add(key, data)

    def fetch(self, names: Sequence[str]) -> None:
        """Bring these into the cache of this host, many at once."""
        cache = self._cache()
        missing = [name for name in dict.fromkeys(names) if cache.find(self._key(name)) is None]
        if len(missing) > 1:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self.file, missing))

    def beginning(self, name: str, length: int) -> bytes:
        """The object's first bytes: from the cache, or this part of it alone."""
        key = self._key(name)
        found = self._cache().find(key)
        if found is None:
            return self._requests.beginning(key, length)
        with found.open("rb") as file:
            return file.read(length)

    def unfinished(self) -> builtins.list[str]:
        """Nothing: an object is whole or not there."""
        return []

    def create_from(self, name: str, file: Path) -> None:
        """Create the object of a file, which goes into the cache of this host then."""
        self._requests.create(self._key(name), file)
        self._cache().take(self._key(name), file)

    def scratch(self, name: str) -> Path:
        """A name for a file of this host, to be filled and then created as the object."""
        return self._cache().scratch(self._key(name))

    # Inside ---------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return self.root.prefix + check_name(name)

    def _folder(self, prefix: str) -> str:
        prefix = prefix.rstrip("/")
        return self.root.prefix + (f"{check_name(prefix)}/" if prefix else "")

    def _sizes(self, prefix: str, after: str | None) -> dict[str, int]:
        top = len(self.root.prefix)
        found = self._requests.list(self._folder(prefix), after)
        return {key[top:]: size for key, size in found if key[top:]}

    def _cache(self) -> ObjectCache:
        """That of the root, known by its identity: another root may have stood at the place."""
        top = self.root.top
        with _lock:
            found = _caches.get(str(top))
        if found is not None:
            return found
        folder = self._cache_folder(top)
        with _lock:
            return _caches.setdefault(str(top), ObjectCache(folder))

    def _cache_folder(self, top: BucketPlace) -> Path:
        try:
            made = self._requests.get(top.prefix + IDENTITY)
        except NotFoundError:  # not shared yet, or no root: for this process alone
            temporary = tempfile.TemporaryDirectory(prefix="atoll-objects-")
            _without_identity.append(temporary)
            return Path(temporary.name)
        return local_base() / identity_name(made) / "objects"
