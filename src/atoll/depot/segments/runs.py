"""Joins neighbouring blocks into runs, so that the sizes of a long range are a short list. Pure."""

from __future__ import annotations

_RUNS = 1_024
"""About into how many runs as many bytes as are enough are divided at most."""

_SMALL_BYTES_MAX = 64 * 1024


class Runs:
    """Runs of blocks, in the order of their offsets.

    A block is joined to those before it while they stay small; a large one is a run of its own, so
    that nobody takes its bytes for those of its neighbours.

    Args:
        enough: The bytes after which nobody wants to know more.
    """

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self._small = max(1, min(_SMALL_BYTES_MAX, enough // _RUNS))
        self._total = 0
        self._runs: list[tuple[int, int]] = []
        self._end = self._size = 0

    def add(self, end: int, size: int) -> bool:
        """Take in the block that ends at an offset; whether that is enough."""
        if self._size and max(size, self._size) >= self._small:
            self._runs.append((self._end, self._size))
            self._size = 0
        self._end = end
        self._size += size
        self._total += size
        return self._total > self._enough

    def found(self) -> list[tuple[int, int]]:
        """Each run's end and bytes."""
        return [*self._runs, (self._end, self._size)] if self._size else list(self._runs)
