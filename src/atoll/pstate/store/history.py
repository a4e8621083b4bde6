"""What the committed log offers to a store that must be brought up to date.

A vnode store is a cache: everything in it can be rebuilt from checkpoints and incremental logs,
whose names stand in the commit objects. :class:`History` is the question side of that log, as
this layer needs it. The microbatch layer implements it; every answer is *as of one commit*.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Protocol, Self

import msgspec


class FileRef(msgspec.Struct, frozen=True, array_like=True):
    """One file of rows, as a manifest or a commit names it.

    Attributes:
        name: Relative to the root, a posix path.
        size: Bytes.
        crc: CRC-32 over all the bytes.
        rows: Entries in the file.
    """

    name: str
    size: int
    crc: int
    rows: int

    @classmethod
    def of(cls, name: str, data: bytes | memoryview, rows: int) -> Self:
        """What is to be said of a file that holds these bytes."""
        return cls(name, memoryview(data).nbytes, zlib.crc32(data), rows)

    def fault(self, data: bytes | memoryview) -> str | None:
        """What is wrong with the bytes that the file was found to hold; None when nothing is."""
        size = memoryview(data).nbytes
        if size != self.size:
            return f"has {size} bytes instead of {self.size}"
        return None if zlib.crc32(data) == self.crc else "has another checksum"


class Rebuild(msgspec.Struct, frozen=True):
    """How to build one vnode as of one commit: a checkpoint, then the logs after it.

    Attributes:
        checkpoint: The file to start from, or None to start from nothing.
        checkpoint_id: The commit that the checkpoint holds; 0 when there is none.
        logs: (id, file) of every incremental log after it that names the vnode, oldest first;
            several steps of one microbatch in their order.
        since: The commit that brought the PState in: what a store holds from before it is none of
            it.
    """

    checkpoint: FileRef | None = None
    checkpoint_id: int = 0
    logs: tuple[tuple[int, FileRef], ...] = ()
    since: int = 0


class Prior(msgspec.Struct, frozen=True, array_like=True):
    """What an earlier step of the same attempt did to one PState, as the driver collected it.

    Attributes:
        step: The step.
        tokens: The winning task runs of that step.
        files: Their incremental logs of this PState. Those that do not name the vnode are read
            in vain, no more.
    """

    step: int
    tokens: frozenset[str]
    files: tuple[FileRef, ...]


class History(Protocol):
    """The committed log as of one commit; the answers never change."""

    @property
    def commit_id(self) -> int:
        """The last commit that this history knows; 0 before the first."""

    @property
    def timeline(self) -> int:
        """The timeline of that commit: how many rollbacks came before it; 0 before the first."""

    @property
    def horizon(self) -> int:
        """The lowest commit as of which the state must stay readable; it never falls."""

    def branch_since(self, timeline: int) -> int | None:
        """The last commit that an earlier timeline shares with this one; None for none earlier."""

    def last_touched(self, pstate: str, vnode: int) -> int:
        """The last id up to :attr:`commit_id` that changed the vnode; 0 when none did."""

    def generation(self, pstate: str, vnode: int) -> int:
        """How many migrations the vnode's entries have been through."""

    def committed_tokens(self, pstate: str, vnode: int, commit_id: int) -> frozenset[str]:
        """The winning task runs of that microbatch; none when it is not committed.

        It may name more runs than those that changed the vnode.
        """

    def committed_steps(self, pstate: str, vnode: int, commit_id: int) -> tuple[int, ...]:
        """The steps of that microbatch whose logs name the vnode, ascending.

        A store that holds a winning step but lacks another one must not pass for the commit.
        """

    def rebuild(self, pstate: str, vnode: int) -> Rebuild:
        """How to build the vnode as of :attr:`commit_id`."""

    def open_file(self, ref: FileRef) -> Path:
        """Where the file lies, readable by this process."""
