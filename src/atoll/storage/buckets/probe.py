"""Proves that a bucket can hold a root before anything is kept in it.

Everything that Atoll promises rests on one property of the store: of several who create one name
at once, exactly one succeeds. Some stores that speak S3's language do not have it, and nothing
tells but a race. So each start lets several threads race for a few names, and looks that what the
winner wrote is there, that its token came back and that a listing knows it at once.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

from atoll.errors import AtollError
from atoll.storage.buckets.bucket import TOKEN
from atoll.storage.buckets.failures import UnsafeStoreError
from atoll.storage.buckets.opening import bucket_of
from atoll.storage.buckets.store import BucketStore
from atoll.storage.objects import ObjectExistsError

PROBES = "meta/probes"
RACERS = 8
ROUNDS = 5


def probe(store: BucketStore, rounds: int = ROUNDS) -> None:
    """Hold that the bucket's create is atomic and that what was created can be seen.

    Raises:
        UnsafeStoreError: When it is not; the root must not be used.
        CredentialsError: When the store does not accept who asks.
        StorageError: When it does not answer.
    """
    prefix = f"{PROBES}/{uuid.uuid4().hex}"
    names = [f"{prefix}/{number}" for number in range(rounds)]
    with ThreadPoolExecutor(RACERS) as pool:
        try:
            for name in names:
                _race(store, name, pool)
            _check_listing(store, prefix, names)
        finally:
            for name in names:
                with contextlib.suppress(AtollError):
                    store.delete(name)


def _race(store: BucketStore, name: str, pool: ThreadPoolExecutor) -> None:
    start = threading.Barrier(RACERS)

    def compete(racer: int) -> bytes | None:
        data = f"{racer} {uuid.uuid4().hex}".encode()
        start.wait()
        try:
            store.create(name, data)
        except ObjectExistsError:
            return None
        return data

    winners = [data for data in pool.map(compete, range(RACERS)) if data is not None]
    if len(winners) != 1:
        raise _unsafe(f"of {RACERS} who created one object at once {len(winners)} were told yes")
    if store.read(name) != winners[0]:
        raise _unsafe("an object does not hold what the one who created it wrote")
    if not bucket_of(store.root.bucket).token(store.root.prefix + name):
        raise _unsafe(f"the metadata {TOKEN!r} of an object does not come back")


def _check_listing(store: BucketStore, prefix: str, names: list[str]) -> None:
    missing = set(names) - set(store.list(prefix))
    if missing:
        raise _unsafe(f"{len(missing)} objects that were created are not listed")


def _unsafe(what: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"the object store cannot hold a root: {what}",
        hint="use a store whose put with If-None-Match is atomic; docs/guides/object-stores.md "
        "lists those that were tried",
    )
