"""Processor time of a process and what it started; steadier than the clock on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of ``/proc/PID/stat`` after the name: the parent, and own and reaped children's times."""


def cpu_seconds(root: int | None = None) -> float | None:
    """Seconds on processors so far, by this process (or ``root``) and below; None off Linux."""
    if not Path("/proc/self/stat").exists():
        return None
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            parents[int(folder.name)] = int(fields[_PARENT])
            ticks[int(folder.name)] = sum(map(int, fields[_TIMES]))
    tree = {root or os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        tree |= more
        grown = bool(more)
    return sum(ticks.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")
