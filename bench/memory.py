"""Memory, open files and disk space of a process and all that it started. Linux only."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from cpu import process_tree

__all__ = ["PeakMemory", "disk_bytes", "open_files", "resident_bytes"]

_BLOCK_BYTES = 512
_KILOBYTE = 1024
_INTERVAL_SECONDS = 1.0


def resident_bytes() -> dict[str, int]:
    """Resident memory of this process, of its Java, and of the Python workers below that.

    A page that several processes share counts once: each of them has its part of it (the kernel's
    *proportional set size*), so that forked workers and mapped stores are not counted many times.
    """
    sizes = {"driver": 0, "java": 0, "workers": 0}
    for pid in process_tree():
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it ended meanwhile
            continue
        fields = dict(line.split(":", 1) for line in rollup.splitlines() if ":" in line)
        sizes[_role(pid)] += int(fields["Pss"].split()[0]) * _KILOBYTE
    return sizes


def open_files() -> dict[str, int]:
    """How many file descriptors each of them holds."""
    counts = {"driver": 0, "java": 0, "workers": 0}
    for pid in process_tree():
        try:
            counts[_role(pid)] += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:  # it ended meanwhile
            continue
    return counts


def disk_bytes(folder: Path) -> int:
    """The space that a folder's files take on disk; holes take none, hard links count once."""
    seen: set[int] = set()
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(base, name))  # noqa: PTH118  # many thousands of files
            except OSError:  # it is gone
                continue
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += status.st_blocks * _BLOCK_BYTES
    return total


class PeakMemory:
    """The most memory that was resident at once while the block ran, looked at every second."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.peak = {"driver": 0, "java": 0, "workers": 0}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            now = resident_bytes()
            if sum(now.values()) > sum(self.peak.values()):
                self.peak = now
            if self._ended.wait(_INTERVAL_SECONDS):
                return


def _role(pid: int) -> str:
    if pid == os.getpid():
        return "driver"
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "workers"
    return "java" if name == "java" else "workers"
