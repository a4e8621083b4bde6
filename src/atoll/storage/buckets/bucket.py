"""One request each: the thinnest layer over the client library, where tests put their faults."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOKEN = "atoll-writer"  # noqa: S105 - a name
"""The metadata of an object that names who created it."""


class Bucket:
    """A bucket as the client library knows it. Raises what the library raises; safe in threads.

    Args:
        client: The library's store.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def put(self, key: str, data: bytes | Path, token: str | None) -> None:
        """Put an object; with a token only when there is none of that name."""
        import obstore

        if token is None:
            obstore.put(self.client, key, data, mode="overwrite")
        else:
            obstore.put(
                self.client,
                key,
                data,
                mode="create",
                attributes={TOKEN: token},
                use_multipart=False,
            )

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        import obstore

        return bytes(memoryview(obstore.get(self.client, key).bytes()))

    def beginning(self, key: str, length: int) -> bytes:
        """The first bytes of an object, which is not empty."""
        import obstore

        return bytes(memoryview(obstore.get_range(self.client, key, start=0, length=length)))

    def head(self, key: str) -> tuple[int, str]:
        """An object's size, and what tells it from others under its name."""
        import obstore

        found = obstore.head(self.client, key)
        return int(found["size"]), f"{found['e_tag']} {found['last_modified']}"

    def token(self, key: str) -> str | None:
        """Who created an object."""
        import obstore

        answer = obstore.get(self.client, key)
        found = answer.attributes.get(TOKEN)
        answer.bytes()
        return None if found is None else str(found)

    def delete(self, key: str) -> None:
        """Delete an object; not to find it is no error everywhere."""
        import obstore

        obstore.delete(self.client, key)

    def list(self, prefix: str, after: str | None) -> Iterator[builtins.list[tuple[str, int]]]:
        """The objects below a prefix that sort after a name, page by page, with their sizes."""
        import obstore

        for page in obstore.list(self.client, prefix or None, offset=after, chunk_size=1000):
            yield [(str(each["path"]), int(each["size"])) for each in page]

    def folders(self, prefix: str) -> builtins.list[str]:
        """The common beginnings, up to a slash, of what lies below a prefix."""
        import obstore

        found = obstore.list_with_delimiter(self.client, prefix or None)
        return [str(each) for each in found["common_prefixes"]]
