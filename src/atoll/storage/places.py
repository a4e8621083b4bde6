"""Where a root lies: a folder of a disk, or a prefix of a bucket in an object store.

Both are values that can be pickled, compared and extended by ``/``, so that whoever only hands a
place on need not know which of the two it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from atoll.errors import UsageError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "memory": "memory",
}
"""What each may be called, and the one spelling that it is known by here."""


@dataclass(frozen=True)
class BucketPlace:
    """A prefix of a bucket (Azure: of a container).

    Attributes:
        bucket: The bucket: ``s3://orders``.
        base: The root's prefix in it; empty for the bucket as a whole.
        inner: What of the root is meant; empty for all of it.
    """

    bucket: str
    base: str = ""
    inner: str = ""

    def __truediv__(self, name: str) -> BucketPlace:
        """The place of that name below this one."""
        return BucketPlace(self.bucket, self.base, f"{self.inner}/{name}" if self.inner else name)

    def __str__(self) -> str:
        """The URL; it never holds a credential."""
        return "/".join(part for part in (self.bucket, self.base, self.inner) if part)

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return str(self).rpartition("/")[2]

    @property
    def prefix(self) -> str:
        """What every object of this place begins with in the bucket."""
        return "".join(f"{part}/" for part in (self.base, self.inner) if part)

    @property
    def top(self) -> BucketPlace:
        """The root that it belongs to."""
        return BucketPlace(self.bucket, self.base)


Place: TypeAlias = Path | BucketPlace
"""Where a root or a part of it lies."""


def place_of(root: Place | str) -> Place:
    """The place that a path or a URL names.

    Args:
        root: A folder, or ``s3://BUCKET/PREFIX``, ``gs://...`` or ``az://CONTAINER/PREFIX``.

    Raises:
        UsageError: When the URL cannot be a root; it is not repeated where it may hold a secret.
    """
    if isinstance(root, BucketPlace):
        return root
    found = _URL.fullmatch(str(root)) if isinstance(root, str) else None
    if found is None:
        return Path(root).expanduser().resolve()
    scheme, rest = found.groups()
    if "@" in rest or "?" in rest or "#" in rest:
        raise UsageError(
            "the URL of a root names a bucket and a prefix, and nothing else",
            hint="give credentials and endpoints by the environment (AWS_ACCESS_KEY_ID, "
            "AWS_ENDPOINT_URL, ...) or by the file that ATOLL_OBJECTS names",
        )
    if scheme.lower() not in _SCHEMES:
        raise UsageError(
            f"roots cannot lie at {scheme}://",
            hint="use a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX",
        )
    bucket, _, base = rest.partition("/")
    base = base.strip("/")
    if not bucket or any(part in {"", ".", ".."} for part in base.split("/") if base):
        raise UsageError(
            "the URL of a root has no bucket, or parts that are no names", root=str(root)
        )
    return BucketPlace(f"{_SCHEMES[scheme.lower()]}://{bucket}", base)


IDENTITY = "meta/identity"
"""The object that tells a root from others that stand, or stood, at the same place."""

LOCAL_VARIABLE = "ATOLL_LOCAL"
"""The environment variable for the folder below which a host keeps its caches of shared roots."""


def local_base() -> Path:
    """The folder below which this host keeps what is only a cache of roots that lie elsewhere."""
    base = os.environ.get(LOCAL_VARIABLE)
    return Path(base) if base else Path(tempfile.gettempdir()) / f"atoll-{os.getuid()}"


def identity_name(made: bytes) -> str:
    """How an identity is called in the names of folders."""
    return hashlib.blake2b(made, digest_size=16).hexdigest()
