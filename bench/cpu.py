"""Processor time of a process and what it started; steadier than the clock on a busy machine."""

from __future__ import annotations

import os
from pathlib import Path

_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of ``/proc/PID/stat`` after the name: the parent, and own and reaped children's times."""


def process_tree(root: int | None = None) -> dict[int, list[str]]:
    """This process (or ``root``) and all below it: the fields of each after its name, by its id."""
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
            found[int(folder.name)] = fields
    tree = {root or os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, fields in found.items() if int(fields[_PARENT]) in tree} - tree
        tree |= more
        grown = bool(more)
    return {pid: found[pid] for pid in tree if pid in found}


def cpu_by_process(root: int | None = None) -> dict[int, float]:
    """Seconds on processors so far, of this process (or ``root``) and each below; Linux only."""
    tick = os.sysconf("SC_CLK_TCK")
    tree = process_tree(root)
    return {pid: sum(map(int, fields[_TIMES])) / tick for pid, fields in tree.items()}


def cpu_seconds(root: int | None = None) -> float | None:
    """Seconds on processors so far, by this process (or ``root``) and below; None off Linux."""
    if not Path("/proc/self/stat").exists():
        return None
    return sum(cpu_by_process(root).values())
