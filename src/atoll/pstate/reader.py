"""What reads of a PState ask of a view, or of what looks like one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Reader(Protocol):
    """Reads entries of a PState at one moment."""

    def get(self, vnode: int, key: bytes) -> bytes | None:
        """The value of a key."""

    def scan(
        self,
        vnode: int,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range of one vnode, in key order or backwards."""
