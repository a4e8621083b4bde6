"""Where a folder of files is: on a disk, or in a bucket of an object store.

Only names that nobody has yet are written, whole or not at all, so of two writers one is told that
the other was first. Buckets do that by a conditional put.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from atoll.errors import NotFoundError, SinkError
from atoll.storage.local import LocalStore
from atoll.storage.objects import ObjectExistsError

_SCHEMES = ("s3://", "gs://", "az://", "azure://", "abfs://", "abfss://", "memory://")


class Place(Protocol):
    """Named byte strings that are created once and never change."""

    def create(self, name: str, data: bytes) -> None:
        """Create it whole and durably.

        Raises:
            ObjectExistsError: When there is one of that name.
        """

    def read(self, name: str) -> bytes:
        """Its bytes.

        Raises:
            NotFoundError: When there is none.
        """

    def list(self, prefix: str) -> list[str]:
        """The names of all below a folder, sorted."""

    def is_empty(self) -> bool:
        """Whether nothing is there at all."""


class LocalPlace(LocalStore):
    """A folder of a disk."""

    def is_empty(self) -> bool:
        """Whether no file is there, but for what a killed process left unfinished."""
        names = (name for _, _, names in os.walk(self.root) for name in names)
        return all(name.startswith(".tmp-") for name in names)


class BucketPlace:
    """A folder of a bucket.

    Args:
        url: ``s3://bucket/folder``, ``gs://...``, ``az://...``.
        options: What obstore's ``from_url`` takes beside it: ``endpoint``, ``region`` and so on.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            from obstore.store import from_url
        except ImportError as error:
            raise SinkError(
                f"{url} needs the package obstore", hint="pip install 'atoll[objects]'"
            ) from error
        self._url = url
        self._store: Any = from_url(url, **options)

    def create(self, name: str, data: bytes) -> None:
        """A put that fails when the name is taken."""
        from obstore.exceptions import AlreadyExistsError

        with self._reached():
            try:
                self._store.put(name, data, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                raise ObjectExistsError("the object exists already", file=name) from error

    def read(self, name: str) -> bytes:
        """Its bytes."""
        with self._reached():
            try:
                return bytes(self._store.get(name).bytes())
            except FileNotFoundError as error:
                raise NotFoundError("no such object", file=name) from error

    def list(self, prefix: str) -> list[str]:
        """The names, page by page."""
        with self._reached():
            return sorted(each["path"] for page in self._store.list(f"{prefix}/") for each in page)

    def is_empty(self) -> bool:
        """Whether nothing is there at all: one page."""
        with self._reached():
            return not next(iter(self._store.list(chunk_size=1)), [])

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Say of what the store's client raises which bucket it is about."""
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            why = str(error).strip().partition("\n")[0][:500]
            raise SinkError(
                f"{self._url} cannot be reached, or refuses: {type(error).__name__}: {why}",
                hint="let the store run, and give the sink rights to list, read and create there",
            ) from error


def place_of(url: str, options: Mapping[str, Any]) -> Place:
    """What a path or URL leads to."""
    if url.startswith(_SCHEMES):
        return BucketPlace(url, options)
    return LocalPlace(Path(url.removeprefix("file://")))
