"""Who writes to a vnode store, and what a store knows about its own past.

A microbatch (``id``) is attempted once or more (``version``), by one life of the coordinator or
another (``epoch``). An attempt may run several consecutive Spark jobs (``step``), and Spark may
run the same task twice at once (``token`` tells the two apart). A store holds the effect of
committed microbatches (its *base*) and, above it, the work of one microbatch that is not known
to be committed yet (*pending*), which the reverse logs beside it can undo.

The header of a store is the one place where that is written; it changes in the same
transaction as the data.
"""

from __future__ import annotations

import msgspec

from atoll.errors import DamageError

FORMAT_VERSION = 2
"""The layout of a vnode store on disk. A store of another version is rebuilt, never read."""

Fence = tuple[int, int, int, int, int]
"""(epoch, timeline, id, version, step) of the highest attempt that wrote to a store.

The timeline stands before the id: after a rollback within one epoch ids begin again lower, and
a late task of an abandoned microbatch must not get in the way of its successor.
"""


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """One task run of one step of one attempt at one microbatch.

    Attributes:
        epoch: The life of the coordinator that started it; a later one fences an earlier one.
        id: The microbatch; ids start at 1.
        version: Which attempt at that microbatch; a retry has a higher one.
        step: Which of the attempt's consecutive Spark jobs, from 0.
        token: Unique per task run, so that twins of one task can be told apart.
        timeline: How many rollbacks the topology had lived through.
    """

    epoch: int
    id: int
    version: int
    step: int
    token: str
    timeline: int = 0

    @property
    def fence(self) -> Fence:
        """The rank of this attempt: a store refuses every lower one."""
        return (self.epoch, self.timeline, self.id, self.version, self.step)


class Pending(msgspec.Struct, frozen=True, array_like=True):
    """Work in a store that was not known to be committed when it was written."""

    id: int
    step: int
    epoch: int
    version: int
    token: str


class Header(msgspec.Struct, frozen=True, array_like=True):
    """What a vnode store holds, in one value.

    Attributes:
        format_version: The layout of the store.
        applied: Every committed microbatch up to this id is in the base.
        pending: The work above the base, oldest first; all of one microbatch.
        fence: The highest attempt that ever wrote here.
        floor: The base can be taken back to this id with the reverse logs kept, not further.
        timeline: The timeline that everything in it follows.
    """

    format_version: int = FORMAT_VERSION
    applied: int = 0
    pending: tuple[Pending, ...] = ()
    fence: Fence = (0, 0, 0, 0, 0)
    floor: int = 0
    timeline: int = 0

    def to_bytes(self) -> bytes:
        """The stored form."""
        return _ENCODER.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes | None) -> Header:
        """Read the stored form; a store without a header is an empty one.

        Raises:
            DamageError: When the bytes are no header.
        """
        if data is None:
            return cls()
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError as error:
            raise DamageError(f"the header of a vnode store cannot be read: {error}") from error


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Header)
