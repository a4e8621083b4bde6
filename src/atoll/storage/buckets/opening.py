"""Opens the bucket of a root: the client library, its credentials and its limits.

Credentials and endpoints come from the environment, by the names that each vendor's own tools
use, or from a JSON file that ``ATOLL_OBJECTS`` names, which is read again when the store no longer
accepts what it said. They are never part of a place, so they are in no root's text, log or error.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from atoll.errors import UsageError
from atoll.storage.buckets.bucket import Bucket

OBJECTS_VARIABLE = "ATOLL_OBJECTS"
"""The environment variable for the JSON file of settings of the client library."""

_REQUEST_SECONDS = 30
_CONNECT_SECONDS = 5
_opened: dict[tuple[int, str], Bucket] = {}
_lock = threading.Lock()


def bucket_of(url: str, *, anew: bool = False) -> Bucket:
    """The client of a bucket, one for all stores of a process.

    Args:
        url: ``s3://NAME``, ``gs://NAME``, ``az://NAME`` or, in this process alone, ``memory://``.
        anew: Look for credentials again, unless it is kept in memory.

    Raises:
        UsageError: When the library is not installed, or its settings cannot be.
    """
    key = (os.getpid(), url)  # a fork cannot use its parent's connections
    with _lock:
        found = _opened.get(key)
        if found is None or (anew and not url.startswith("memory:")):
            found = _opened[key] = Bucket(_opened_store(url))
        return found


def put_in_place(url: str, bucket: Bucket) -> None:
    """Use this client for a bucket in this process from now on: for tests with faults."""
    with _lock:
        _opened[os.getpid(), url] = bucket


def _opened_store(url: str) -> Any:
    try:
        import obstore.store as stores
    except ImportError as error:
        raise UsageError(
            "roots in object stores need a library that is not installed",
            hint="install it: pip install 'atoll[objects]'",
        ) from error
    scheme, _, name = url.partition("://")
    if scheme == "memory":
        return stores.MemoryStore()
    kind = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[scheme]
    given = _settings()
    client = {
        "timeout": f"{_REQUEST_SECONDS}s",
        "connect_timeout": f"{_CONNECT_SECONDS}s",
        **given.pop("client_options", {}),
    }
    if scheme == "s3" and _is_plain(given):
        client.setdefault("allow_http", True)
    try:
        return kind(name, client_options=client, retry_config={"max_retries": 0}, **given)
    except Exception as error:  # noqa: BLE001 - whatever it refuses; its text may hold what it was given
        raise UsageError(
            f"the settings for {scheme}:// cannot be: {type(error).__name__}",
            hint=f"look at the environment and at the file that {OBJECTS_VARIABLE} names",
            bucket=url,
        ) from None


def _is_plain(given: dict[str, Any]) -> bool:
    """Whether the endpoint that was named is one without encryption: then that is meant."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    found = given.get("endpoint") or next((os.environ[n] for n in names if os.environ.get(n)), "")
    return str(found).startswith("http://")


def _settings() -> dict[str, Any]:
    path = os.environ.get(OBJECTS_VARIABLE)
    if not path:
        return {}
    try:
        found = json.loads(Path(path).expanduser().read_text())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the file that {OBJECTS_VARIABLE} names cannot be read: {type(error).__name__}",
            hint='let it be one JSON object, such as {"region": "eu-west-1"}',
            file=path,
        ) from None
    if not isinstance(found, dict):
        raise UsageError(
            f"the file that {OBJECTS_VARIABLE} names is not one JSON object", file=path
        )
    return found
