"""Requests to a bucket: tried again while what is wrong may pass, counted, told in Atoll's words.

The library's own repetition is off: it would turn the answer to a second create into "exists
already" though the first one, whose answer was lost, had made the object. Here each create has a
token of its own, and "exists already" is believed only after a look at whose it is.
"""

from __future__ import annotations

import builtins
import contextlib
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from atoll import beats
from atoll.errors import AtollError, NotFoundError, StorageError
from atoll.logs import get_logger
from atoll.storage.buckets.bucket import Bucket
from atoll.storage.buckets.failures import (
    CredentialsError,
    Meaning,
    UnknownOutcomeError,
    meaning_of,
)
from atoll.storage.buckets.opening import bucket_of
from atoll.storage.objects import ObjectExistsError

_T = TypeVar("_T")
_log = get_logger(__name__)

RETRY_SECONDS = 20.0
"""For how long a request is tried again; after that whoever asked decides."""

_WAIT_SECONDS_MIN = 0.05
_WAIT_SECONDS_MAX = 2.0


class RequestCounts:
    """What this process has asked of object stores. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Counter[str] = Counter()

    def add(self, kind: str, sent: int = 0, *, failed: bool = False) -> None:
        """One more request."""
        with self._lock:
            self._found[kind] += 1
            self._found["bytes_sent"] += sent
            self._found["failed"] += failed

    def add_received(self, size: int) -> None:
        """So many bytes more have come."""
        with self._lock:
            self._found["bytes_received"] += size

    def snapshot(self) -> dict[str, int]:
        """Requests by kind (``create``, ``put``, ``get``, ``head``, ``list``, ``delete``).

        Beside them ``bytes_sent``, ``bytes_received`` and how many ``failed``.
        """
        with self._lock:
            return dict(self._found)


COUNTS = RequestCounts()


class Requests:
    """What is asked of one bucket.

    Args:
        url: The bucket.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def create(self, key: str, data: bytes | Path) -> None:
        """Create an object, or raise ObjectExistsError; who was first is never a guess.

        Raises:
            UnknownOutcomeError: When the store did not say in time whether it is made.
        """
        token = uuid.uuid4().hex
        size = len(data) if isinstance(data, bytes) else data.stat().st_size

        def attempt(bucket: Bucket) -> bool:
            """Whether it is made; false when the name is another's, or was until just now."""
            try:
                bucket.put(key, data, token)
            except Exception as error:
                if meaning_of(error)[0] is not Meaning.TAKEN:
                    raise
                COUNTS.add("get")
                return self._is_own(bucket, key, token)
            return True

        if not self._tried("create", key, attempt, size, unknown=True):
            raise ObjectExistsError("the object exists already", file=f"{self.url}/{key}")

    def put(self, key: str, data: bytes) -> None:
        """Write an object whose name is its writer's alone."""
        self._tried("put", key, lambda bucket: bucket.put(key, data, None), len(data))

    def get(self, key: str) -> bytes:
        """All bytes of an object.

        Raises:
            NotFoundError: When there is none.
        """
        data = self._tried("get", key, lambda bucket: bucket.get(key))
        COUNTS.add_received(len(data))
        return data

    def beginning(self, key: str, length: int) -> bytes:
        """The first bytes of an object.

        Raises:
            NotFoundError: When there is none.
        """
        data = self._tried("get", key, lambda bucket: bucket.beginning(key, length))
        COUNTS.add_received(len(data))
        return data

    def head(self, key: str) -> tuple[int, str]:
        """Size and stamp of an object.

        Raises:
            NotFoundError: When there is none.
        """
        return self._tried("head", key, lambda bucket: bucket.head(key))

    def delete(self, key: str) -> None:
        """Delete an object; it is no error when it is missing."""
        with contextlib.suppress(NotFoundError):
            self._tried("delete", key, lambda bucket: bucket.delete(key))

    def list(self, prefix: str, after: str | None = None) -> builtins.list[tuple[str, int]]:
        """The objects below a prefix with their sizes, sorted by name."""

        def attempt(bucket: Bucket) -> list[tuple[str, int]]:
            found = []
            for number, page in enumerate(bucket.list(prefix, after)):
                if number:
                    COUNTS.add("list")
                found += page
            return found

        return sorted(self._tried("list", prefix, attempt))

    def folders(self, prefix: str) -> builtins.list[str]:
        """The common beginnings of what lies below a prefix."""
        return self._tried("list", prefix, lambda bucket: bucket.folders(prefix))

    # Inside ---------------------------------------------------------------------------------------

    def _is_own(self, bucket: Bucket, key: str, token: str) -> bool:
        """Whether what stands under a name is what this creator put there."""
        try:
            return bucket.token(key) == token
        except FileNotFoundError:
            # it was there and is gone, or two creates hindered each other: try once more
            raise _AgainError from None

    def _tried(
        self,
        kind: str,
        key: str,
        attempt: Callable[[Bucket], _T],
        size: int = 0,
        *,
        unknown: bool = False,
    ) -> _T:
        """Do it, again and again while what is wrong may pass."""
        until = time.monotonic() + RETRY_SECONDS
        renewed = False
        for wait in _waits():
            beats.present().beat()
            bucket = bucket_of(self.url)
            try:
                answer = attempt(bucket)
            except _AgainError:
                meaning, word = Meaning.PASSING, "others create and delete it"
            except Exception as error:  # noqa: BLE001 - the library's, told in Atoll's words
                meaning, word = meaning_of(error)
            else:
                COUNTS.add(kind, sent=size)
                return answer
            COUNTS.add(kind, sent=size, failed=meaning is not Meaning.MISSING)
            if meaning is Meaning.CREDENTIALS and not renewed:
                renewed = True
                bucket_of(self.url, anew=True)
                continue
            over = time.monotonic() + wait > until
            if over or meaning is not Meaning.PASSING:
                raise self._told(meaning, word, key, unknown=unknown) from None
            _log.debug("object store asked again", request=kind, object=key, why=word)
            time.sleep(wait)
        raise AssertionError("waits never end")

    def _told(self, meaning: Meaning, word: str, key: str, *, unknown: bool) -> AtollError:
        where = f"{self.url}/{key}"
        if meaning is Meaning.MISSING:
            return NotFoundError("no such object", file=where)
        if meaning is Meaning.CREDENTIALS:
            return CredentialsError(
                f"the object store does not accept the credentials: {word}",
                hint="renew them in the environment and start again, or in the file that "
                "ATOLL_OBJECTS names, which is read again by itself; see that they may read, "
                "write, list and delete below the root",
                file=where,
            )
        if meaning is Meaning.PASSING and unknown:
            return UnknownOutcomeError(
                f"the object store did not say whether an object was made: {word}",
                hint="see that the store is reachable; the object may be there all the same",
                file=where,
            )
        said = "does not answer" if meaning is Meaning.PASSING else "refused"
        return StorageError(
            f"the object store {said}: {word}",
            hint="see that bucket and endpoint are right and that the store is reachable",
            file=where,
        )


class _AgainError(Exception):
    """What was seen does not last: look once more."""


def _waits() -> Iterator[float]:
    """Ever longer times to wait, drawn so that many who wait do not come back at once."""
    most = _WAIT_SECONDS_MIN
    while True:
        yield random.uniform(most / 2, most)  # noqa: S311 - no secret
        most = min(most * 2, _WAIT_SECONDS_MAX)
