"""A bucket in memory whose requests fail as those of real stores do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from atoll.storage.buckets.bucket import Bucket
from atoll.storage.buckets.opening import bucket_of, put_in_place

CHANGING = ("put", "delete")


class GenericError(Exception):
    """What the client library raises for what may pass, by that name."""


class NotSupportedError(Exception):
    """What the client library raises for what never works, by that name."""


TIMED_OUT = "Generic S3 error: Error performing PUT http://x/?Signature=s3cret: operation timed out"
SLOW_DOWN = "Generic S3 error: status 503 Service Unavailable: <Code>SlowDown</Code>"


class FaultyBucket(Bucket):
    """Asks before each request what is to become of it.

    Args:
        url: Its URL, which leads to it in this process from now on.
        verdict: Given the request's kind, its key and how many there were before of ``kinds``;
            returns None to let it pass, or when to fail (``"before"``, ``"after"``) and with what.
        kinds: Which requests are counted.
    """

    def __init__(
        self,
        url: str,
        verdict: Callable[[str, str, int], tuple[str, Exception] | None],
        kinds: tuple[str, ...] = CHANGING,
    ) -> None:
        super().__init__(healthy(url).client)
        self.verdict = verdict
        self.kinds = kinds
        self.count = 0
        self._lock = threading.Lock()
        put_in_place(url, self)

    def put(self, key: str, data: bytes | Path, token: str | None) -> None:
        """Perhaps put."""
        self._perform("put", key, lambda: Bucket.put(self, key, data, token))

    def get(self, key: str) -> bytes:
        """Perhaps get."""
        return self._perform("get", key, lambda: Bucket.get(self, key))

    def beginning(self, key: str, length: int) -> bytes:
        """Perhaps get a part."""
        return self._perform("get", key, lambda: Bucket.beginning(self, key, length))

    def head(self, key: str) -> tuple[int, str]:
        """Perhaps look."""
        return self._perform("head", key, lambda: Bucket.head(self, key))

    def token(self, key: str) -> str | None:
        """Perhaps look who made it."""
        return self._perform("get", key, lambda: Bucket.token(self, key))

    def delete(self, key: str) -> None:
        """Perhaps delete."""
        self._perform("delete", key, lambda: Bucket.delete(self, key))

    def list(self, prefix: str, after: str | None) -> Any:
        """Perhaps list."""
        return self._perform("list", prefix, lambda: iter([*Bucket.list(self, prefix, after)]))

    def folders(self, prefix: str) -> Any:
        """Perhaps list folders."""
        return self._perform("list", prefix, lambda: Bucket.folders(self, prefix))

    def _perform(self, kind: str, key: str, request: Callable[[], Any]) -> Any:
        with self._lock:
            before = self.count
            self.count += kind in self.kinds
        found = self.verdict(kind, key, before)
        if found is None:
            return request()
        when, error = found
        if when == "after":
            request()
        raise error


def healthy(url: str) -> Bucket:
    """The same objects, and no faults from now on."""
    bucket = Bucket(bucket_of(url).client)
    put_in_place(url, bucket)
    return bucket


def dying(at: int, when: str) -> Callable[[str, str, int], tuple[str, Exception] | None]:
    """As a process sees it that ends at its change number ``at``: before or after it took place.

    From then on nothing it asks has an effect.
    """

    def verdict(kind: str, _key: str, before: int) -> tuple[str, Exception] | None:
        if before < at or (before == at and kind not in CHANGING):
            return None
        return (when if before == at else "before"), NotSupportedError("the process is dead")

    return verdict
