"""Plans and commits: the numbered objects that a topology's progress consists of.

Both are made with create-if-absent under their microbatch's id, so of two coordinators only one
can make each. Plan ``N`` fixes which records every attempt at ``N`` reads. A plan that cannot run
is cut smaller: a *revision* of it, which takes the beginnings of its ranges. Creating commit ``N``
*is* the commit: before it nothing of ``N`` is visible, after it all of ``N`` is. It names the
ranges that it covers, and the next plan begins where they end.

Ids begin at 1; the progress before the first commit is :data:`GENESIS`.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable

import msgspec

from atoll.microbatch.accounts.entries import StepRows
from atoll.pstate.store.history import FileRef
from atoll.topology.times import Times

Ranges = dict[str, list[tuple[int, int]]]
"""For each depot, for each depot partition, the offsets ``[start, end)``."""


Reach = dict[str, dict[int, int]]
"""For some depots, for some depot partitions, the offset after the last row of interest."""


def records_in(ranges: Ranges) -> int:
    """How many records ranges hold."""
    return sum(end - start for parts in ranges.values() for start, end in parts)


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What microbatch ``id`` reads, in every attempt that follows this revision of it."""

    id: int
    epoch: int
    planned_at_ms: int
    ranges: Ranges
    checkpoint_vnodes: dict[str, list[int]]
    """For each PState the vnodes whose whole state this microbatch also writes to a checkpoint."""
    timeline: int = 0
    """The timeline that the microbatch belongs to."""
    watermarks: dict[str, int] = {}
    """How far event time is in this microbatch, in milliseconds, by watermark."""
    watermarks_before: dict[str, int] = {}
    """How far it was in the microbatch before."""
    due: dict[str, list[int]] = {}
    """For each PState of a timed step the vnodes in which something is due."""
    migrate_vnodes: dict[str, list[int]] = {}
    """For each PState the vnodes that this microbatch rewrites although nothing else does."""
    mirrors: dict[str, int] = {}
    """For each other topology (``module/topology``) the commit as of which it is read."""
    behind: list[str] = []
    """The depot partitions (``bids/3``) that had more records than the microbatch reads."""
    revision: int = 0
    """How often the plan was cut smaller (:mod:`atoll.microbatch.plans.revisions`)."""

    @property
    def times(self) -> Times:
        """What time it is in every attempt."""
        return Times(self.planned_at_ms, self.watermarks, self.watermarks_before, self.id)

    @property
    def records(self) -> int:
        """How many records the ranges hold, ticks among them."""
        return records_in(self.ranges)


class LogFile(msgspec.Struct, frozen=True, array_like=True):
    """An incremental log that an actor wrote, and the vnodes that it holds changes of."""

    file: FileRef
    vnodes: list[int]


class CheckpointFile(msgspec.Struct, frozen=True, array_like=True):
    """The whole state of some vnodes, each as it was after the microbatch of the id beside it."""

    file: FileRef
    vnodes: list[int]
    ids: list[int]


class AppendedRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows that a microbatch has for a depot or a sink: an Arrow file."""

    depot: str
    file: FileRef
    kind: str = "rows"
    """``rows`` of an ``append_to`` or ``write_to`` step, ``changes`` of a PState for a sink, or
    records ``rejected`` by a user's function."""


class PStateCommit(msgspec.Struct, frozen=True):
    """What a commit says of one PState."""

    touched: bytes
    """For each vnode the id of the last microbatch that changed it (:func:`pack_ids`)."""
    logs: list[list[LogFile]]
    """The incremental logs of this microbatch, by the Spark job that wrote them."""
    checkpoints: list[CheckpointFile]
    generations: bytes = b""
    """For each vnode how many migrations its entries have been through; empty for none of any."""
    since: int = 0
    """The commit that brought it in, filled; 0 of one that the topology has had from its first."""


class Branch(msgspec.Struct, frozen=True):
    """Where a timeline leaves the one before it.

    Attributes:
        branch: The last commit of earlier timelines that still counts.
        epoch: The life of the coordinator that went back.
        at_ms: When.
        floor: Commits below it were dropped already when it began.
        horizon: The lowest commit as of which the state could still be read when it began.
        pauses: Whether the topology rests since, until somebody lets it go on.
    """

    branch: int
    epoch: int
    at_ms: int
    floor: int
    horizon: int
    pauses: bool = False


class Clocks(msgspec.Struct, frozen=True):
    """What a commit says of time."""

    now_ms: int = 0
    """Processing time of the microbatch: it never goes back."""
    watermarks: dict[str, int] = {}
    """How far event time is for the next microbatch."""
    reached: dict[str, dict[str, int]] = {}
    """For each watermark how far it would be by the rows of a depot partition alone."""
    used: dict[str, int] = {}
    """How far it was in this one."""
    dropped: dict[str, int] = {}
    """For each step that drops rows without an open window how many, over the topology's life."""
    agenda: dict[str, bytes] = {}
    """For each PState of a timed step, by vnode, when something is due (:func:`pack_times`)."""


class Commit(msgspec.Struct, frozen=True):
    """That microbatch ``id`` took effect, and where its effect lies."""

    id: int
    version: int
    epoch: int
    committed_at_ms: int
    ranges: Ranges
    records: int
    processed: int
    """Records processed over the topology's life, this microbatch included."""
    tokens: list[str]
    """The task runs whose output this commit consists of."""
    pstates: dict[str, PStateCommit]
    floor: int
    """Commits below this id are not needed to rebuild any state as of this commit."""
    appends: list[AppendedRows] = []
    """What this microbatch appends to depots, in order; durable before the commit."""
    timeline: int = 0
    """How many rollbacks the topology had lived through when this was committed."""
    horizon: int = -1
    """The lowest commit as of which the state can still be read; -1 in commits of old versions."""
    closing: Branch | None = None
    """Given in a mark: no microbatch, but the end of its timeline, where a rollback stands."""
    clocks: Clocks = Clocks()
    """How far time is."""
    revision: int = 0
    """The revision of the plan that the attempt followed: the one with these ranges."""
    rows: list[StepRows] = []
    """What became of the microbatch's rows, step by step; empty in commits of old versions."""
    delivered: Reach = {}
    """How far the topology had appended to depots before this microbatch."""

    @property
    def readable_from(self) -> int:
        """The lowest commit as of which the state can be read, or to which one can go back."""
        return self.id if self.horizon < 0 else self.horizon

    def ends(self) -> dict[str, list[int]]:
        """Where the next microbatch begins, by depot and depot partition."""
        return {depot: [end for _, end in ranges] for depot, ranges in self.ranges.items()}


def further(known: Reach, more: Reach) -> Reach:
    """The greater offset of both, by depot and depot partition."""
    return {
        depot: {
            part: max(mine.get(part, 0), other.get(part, 0)) for part in sorted({*mine, *other})
        }
        for depot in sorted({*known, *more})
        for mine, other in [(known.get(depot, {}), more.get(depot, {}))]
    }


GENESIS = Commit(0, 0, 0, 0, {}, 0, 0, [], {}, 1)
"""The progress of a topology that has committed nothing yet."""

_PLAN = msgspec.msgpack.Decoder(Plan)
_COMMIT = msgspec.msgpack.Decoder(Commit)


def encode(value: Plan | Commit) -> bytes:
    """The object's bytes; the numbered-object layer adds length and checksum."""
    return msgspec.msgpack.encode(value)


def decode_plan(data: bytes) -> Plan:
    """Read what :func:`encode` wrote of a plan."""
    return _PLAN.decode(data)


def decode_commit(data: bytes) -> Commit:
    """Read what :func:`encode` wrote of a commit."""
    return _COMMIT.decode(data)


def pack_ids(ids: list[int]) -> bytes:
    """Ids by vnode, compressed: neighbours are mostly equal, so a few bytes for each run."""
    return zlib.compress(array("Q", ids).tobytes(), level=1)


def unpack_ids(data: bytes) -> list[int]:
    """Read what :func:`pack_ids` wrote."""
    return array("Q", zlib.decompress(data)).tolist()


def pack_times(times: Iterable[int]) -> bytes:
    """Milliseconds by vnode, compressed; :data:`~atoll.topology.times.NEVER` where none is."""
    return zlib.compress(array("q", times).tobytes(), level=1)


def unpack_times(data: bytes) -> list[int]:
    """Read what :func:`pack_times` wrote."""
    return array("q", zlib.decompress(data)).tolist()
